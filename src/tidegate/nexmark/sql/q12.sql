SELECT bidder, window.start AS starttime, window.end AS endtime, count(*) AS bids
FROM bid
GROUP BY bidder, window(date_time, '10 seconds')
