// Ends the person's login session.
import { chooseOrganization, post } from "./api";

/** Ends the login session and opens the login page. */
export async function signOut(): Promise<void> {
  await post("/api/auth/logout");
  chooseOrganization(null);
  location.assign("/login");
}
