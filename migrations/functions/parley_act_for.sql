-- Sets the organizations for which the transaction acts, which parley_organizations() returns until
-- the end of the transaction. Returns the setting. An id with a comma is omitted, because it would
-- be parsed as several ids. For a batch of one organization, the usual case, no query is needed.
--
-- Called by package pg in transactions that act for organizations, and by functions that get the
-- organizations as an argument. The policies of row-level security compare the rows with the
-- setting.
CREATE OR REPLACE FUNCTION parley_act_for(orgs text[]) RETURNS text
  LANGUAGE plpgsql AS $$
BEGIN
  IF orgs[1] = ALL (orgs) AND strpos(orgs[1], ',') = 0 THEN
    RETURN set_config('parley.organizations', orgs[1], true);
  END IF;
  RETURN set_config('parley.organizations',
    coalesce((SELECT string_agg(DISTINCT o, ',') FROM unnest(orgs) AS o WHERE strpos(o, ',') = 0), ''), true);
END $$;
