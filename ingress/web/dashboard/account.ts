// The end of a login session.
import { chooseOrganization, post } from "./api";

/** Ends the login session and leads to the login page. */
export async function signOut(): Promise<void> {
  await post("/api/auth/logout");
  chooseOrganization(null);
  location.assign("/login");
}
