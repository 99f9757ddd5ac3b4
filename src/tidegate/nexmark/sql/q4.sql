WITH final AS (
  SELECT a.id, a.category, a.expires, max(b.price) AS price
  FROM auction AS a
  JOIN bid AS b ON a.id = b.auction AND b.date_time >= a.date_time AND b.date_time <= a.expires
  GROUP BY a.id, a.category, a.expires
)
SELECT window.start AS closed_from, window.end AS closed_to, category, avg(price) AS average
FROM final
GROUP BY window(expires, '10 seconds'), category
