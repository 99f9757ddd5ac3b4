SELECT bidder, session_window.start AS starttime, session_window.end AS endtime, count(*) AS bids
FROM bid
GROUP BY bidder, session_window(date_time, '10 seconds')
