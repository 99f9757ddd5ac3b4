WITH bids AS (
  SELECT auction, window, max_by(struct(price, date_time, bidder, channel, url, extra), struct(price, date_time, bidder, channel, url, extra), 10) AS best
  FROM bid
  GROUP BY auction, window(date_time, '10 seconds')
),
ranked AS (
  SELECT auction, posexplode(best) AS (rank, bid) FROM bids
)
SELECT auction, bid.bidder AS bidder, bid.price AS price, bid.channel AS channel, bid.url AS url, bid.date_time AS date_time,
       bid.extra AS extra, rank + 1 AS rank_number
FROM ranked
