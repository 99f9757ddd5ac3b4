WITH joined AS (
  SELECT window, id, name FROM person GROUP BY window(date_time, '10 seconds'), id, name
),
selling AS (
  SELECT window, seller FROM auction GROUP BY window(date_time, '10 seconds'), seller
)
SELECT j.id, j.name, j.window.start AS starttime
FROM joined AS j
JOIN selling AS s ON j.id = s.seller AND j.window = s.window
