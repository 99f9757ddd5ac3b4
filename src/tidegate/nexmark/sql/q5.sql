WITH counted AS (
  SELECT window, auction, count(*) AS bids
  FROM bid
  GROUP BY window(date_time, '10 seconds', '2 seconds'), auction
),
ranked AS (
  SELECT window, max(bids) AS most, collect_list(struct(auction, bids)) AS items
  FROM counted
  GROUP BY window
),
listed AS (
  SELECT window, most, explode(items) AS item FROM ranked
)
SELECT window.start AS starttime, window.end AS endtime, item.auction AS auction, item.bids AS bids
FROM listed
WHERE item.bids = most
