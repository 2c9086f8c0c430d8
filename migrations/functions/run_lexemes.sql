-- Returns the words of a run as lexemes that begin with its organization's prefix. It adds lexemes
-- for the periods of time to which the run belongs, which begin with @. A run's id begins with its
-- time in base 32, so its first 4, 5 and 6 characters after run_ stand for periods of 12 days, 9
-- hours and 17 minutes. A search reads the entries of one period, which are few however many runs
-- an organization has.
CREATE OR REPLACE FUNCTION run_lexemes(org text, run text, words text[]) RETURNS text[]
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT array_agg(o.prefix || l.lexeme)
  FROM (SELECT left(encode(sha256(convert_to($1, 'UTF8')), 'base64'), 4) OFFSET 0) AS o (prefix) -- computed once, not for each word
    CROSS JOIN (SELECT unnest($3) UNION ALL SELECT '@' || substr($2, 5, n) FROM generate_series(4, 6) n WHERE length($2) >= 4 + n) AS l (lexeme)
$$;
