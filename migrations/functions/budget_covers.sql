-- Reports whether a budget counts a run of this agent that was started with this key or by this
-- automation.
--
-- scope determines whether subjects contains agents, keys or automations. agent, key and automation
-- may be null; null matches no subject. Called by the functions for budgets, and by budgetdb.
CREATE OR REPLACE FUNCTION budget_covers(scope text, subjects text[], agent text, key text, automation text) RETURNS boolean
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE scope WHEN 'organization' THEN true WHEN 'agent' THEN agent = ANY (subjects) WHEN 'key' THEN key = ANY (subjects)
    ELSE automation = ANY (subjects) END IS TRUE
$$;
