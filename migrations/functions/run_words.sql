-- Returns the words of a text in the form in which they are searched: in lower case, without
-- accents and English endings, and at most 60 characters long. Words that the text repeats are
-- repeated. Punctuation separates words. The English stemmer is used for every language, because it
-- changes the words of a text and of a search in the same way.
--
-- Called by index_runs and search_runs. A change of this function requires that all runs are
-- indexed again.
CREATE OR REPLACE FUNCTION run_words(body text) RETURNS SETOF text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT left(coalesce((ts_lexize('english_stem', w.word))[1], w.word), 60)
  FROM unnest(regexp_split_to_array(
    lower(CASE WHEN octet_length($1) = char_length($1) THEN $1 -- no accents to remove
      ELSE regexp_replace(normalize($1, NFKD), '[\u0300-\u036f]', '', 'g') END),
    '[][\s!"#$%&''()*+,./:;<=>?@\\^_`{|}~“”‘’„«»–—…·•-]+')) AS w (word) -- translate takes three times as long for these characters
  WHERE w.word <> ''
$$;
