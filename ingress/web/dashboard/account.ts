// Ends the person's login session.
import { chooseOrganization, post } from "./api";
import { leave } from "./panels";

/** Ends the login session and opens the login page. */
export async function signOut(): Promise<void> {
  await post("/api/auth/logout");
  chooseOrganization(null);
  leave("/login");
}
