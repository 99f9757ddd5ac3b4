WITH latest AS (
  SELECT auction, bidder, max(struct(date_time, price, channel, url, extra)) AS bid
  FROM bid
  GROUP BY auction, bidder
)
SELECT auction, bidder, bid.price AS price, bid.channel AS channel, bid.url AS url, bid.date_time AS date_time, bid.extra AS extra
FROM latest
