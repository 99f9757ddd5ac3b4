WITH offers AS (
  SELECT a.id, a.item_name, a.description, a.initial_bid, a.reserve, a.date_time, a.expires, a.seller, a.category, a.extra,
         struct(b.price AS price, -unix_micros(b.date_time) AS earlier, b.bidder AS bidder, b.date_time AS bid_time, b.extra AS bid_extra) AS offer
  FROM auction AS a
  JOIN bid AS b ON a.id = b.auction AND b.date_time >= a.date_time AND b.date_time <= a.expires
),
won AS (
  SELECT id, item_name, description, initial_bid, reserve, date_time, expires, seller, category, extra, max(offer) AS best
  FROM offers
  GROUP BY id, item_name, description, initial_bid, reserve, date_time, expires, seller, category, extra
)
SELECT id, item_name, description, initial_bid, reserve, date_time, expires, seller, category, extra,
       best.bidder AS bidder, best.price AS price, best.bid_time AS bid_time, best.bid_extra AS bid_extra
FROM won
