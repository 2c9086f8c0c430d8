// The pages of those who administer an organization. They come together: each further bundle would cost the others a request.
export { AutomationsPage } from "./automations";
export { HookPage } from "./hook";
export { NewHookPage } from "./newhook";
export { OrgPage } from "./org";
