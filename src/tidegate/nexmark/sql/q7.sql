WITH highest AS (
  SELECT window, max(struct(price, date_time, auction, bidder, extra)) AS best
  FROM bid
  GROUP BY window(date_time, '10 seconds')
)
SELECT best.auction AS auction, best.price AS price, best.bidder AS bidder, best.date_time AS date_time, best.extra AS extra
FROM highest
