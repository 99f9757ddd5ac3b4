WITH final AS (
  SELECT a.id, a.seller, a.expires, max(b.price) AS price
  FROM auction AS a
  JOIN bid AS b ON a.id = b.auction AND b.date_time >= a.date_time AND b.date_time <= a.expires
  GROUP BY a.id, a.seller, a.expires
),
closed AS (
  SELECT window, seller, max_by(struct(expires AS closed, id, price), struct(expires, id), 10) AS latest
  FROM final
  GROUP BY window(expires, '10 seconds'), seller
),
listed AS (
  SELECT window, seller, inline(latest) FROM closed
)
SELECT window.start AS closed_from, window.end AS closed_to, seller, avg(price) AS average
FROM listed
GROUP BY window, seller
