"""Cases of dates, timestamps and intervals: each in two time zones."""

CASES = """
convert_timezone('UTC', 'Asia/Tokyo', ntz)
convert_timezone('America/New_York', 'Europe/Paris', ntz)
time_bucket(interval '1' hour, ts)
time_bucket(interval '7' minute, ntz)
time_bucket(interval '90' second, ts, timestamp'2024-01-01 00:00:10')
dayname(day)
monthname(day)
make_dt_interval(k, near, k, seconds)
make_timestamp(2023 + k, k + 3, near, near, near, seconds)
make_timestamp(2024, 3, 10, near, 30, seconds)
make_timestamp(2024, 3, 10, near, 30, seconds, 'Europe/Paris')
make_timestamp_ltz(2024, 11, 3, near, 30, seconds)
make_timestamp_ntz(2024, 2, near, near, 0, seconds)
try_make_timestamp(2023 + k, k, near, near, near, seconds)
try_make_timestamp_ltz(2023 + k, k, near, near, near, seconds)
try_make_timestamp_ntz(2023 + k, k, near, near, near, seconds)
ts + make_ym_interval(0, k)
day2 + make_ym_interval(k, k)
months_between(ts, ts2)
months_between(ts, ts2, false)
months_between(day, day2)
next_day(day, 'MO')
next_day(day2, 'sunday')
next_day(day, 'Wed')
ts + interval '1' month
ntz + interval '13' month
ts - interval '2-1' year to month
day + interval '1' month
day - interval '5' year
day - interval '2' day
ts - make_interval(0, 1, 0, 2)
ntz + make_interval(1, 0, 1)
ts - day
day - ts
span * 2
span * k
span * m
span * 1.5D
span / k
span / 2.5D
try_divide(span, k)
span + span
-span
extract(days from span)
extract(hours from span)
extract(minute from span)
extract(seconds from span)
sign(span)
sign(make_ym_interval(k, 0))
abs(span)
cast(span as string)
extract(year from make_ym_interval(k, near))
extract(month from make_ym_interval(k, near))
timestampadd(HOUR, k, ts)
timestampadd(HOUR, l, ts)
timestampadd(DAY, k, ts)
timestampadd(DAY, l, ts)
timestampadd(WEEK, k, ntz)
timestampadd(MONTH, k, ts)
timestampadd(YEAR, k, ts)
timestampadd(QUARTER, k, ntz)
timestampadd(MICROSECOND, i, ts)
timestampadd(MINUTE, i, ts)
dateadd(MONTH, k, ts)
date_add(MINUTE, k, ts)
timestampdiff(MONTH, ts, ts2)
timestampdiff(YEAR, ts, ts2)
timestampdiff(QUARTER, ts, ntz)
timestampdiff(DAY, ts, ts2)
timestampdiff(HOUR, ts, ts2)
timestampdiff(WEEK, ts, ts2)
timestampdiff(SECOND, day, ts2)
datediff(YEAR, day, day2)
extract(month from ts)
extract(second from ntz)
extract(week from day)
date_part('hour', ts)
date_part('dow', day)
datepart('SECONDS', ts)
to_date(time)
to_date(patterned, 'yyyy/MM/dd')
try_to_date(time)
to_timestamp(patterned, 'yyyy-MM-dd HH:mm:ss')
try_to_timestamp(patterned, 'yyyy/MM/dd')
to_timestamp_ltz(time)
to_timestamp_ntz(time)
to_char(ts, 'yyyy-MM')
to_varchar(ts, 'yyyy')
date(time)
timestamp(time)
current_timezone()
cast(m as timestamp)
cast(ts as decimal(20,6))
cast(ts as decimal(12,2))
cast(struct(ts, ntz) as string)
to_json(struct(ts, ntz))
"""
