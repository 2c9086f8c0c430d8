-- Returns the prefix of an organization's lexemes, followed by each of the words and by the periods of time of a run, which
-- begin with @. An id begins with its time in 32nds, so its first 4, 5 and 6 characters after run_ stand for 12 days, 9 hours
-- and 17 minutes. A search reads the lists of a period, which stay short however many runs an organization has.
CREATE OR REPLACE FUNCTION run_lexemes(org text, run text, words text[]) RETURNS text[]
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT array_agg(o.prefix || l.lexeme)
  FROM (SELECT left(encode(sha256(convert_to($1, 'UTF8')), 'base64'), 4) OFFSET 0) AS o (prefix) -- computed once, not for each word
    CROSS JOIN (SELECT unnest($3) UNION ALL SELECT '@' || substr($2, 5, n) FROM generate_series(4, 6) n WHERE length($2) >= 4 + n) AS l (lexeme)
$$;
