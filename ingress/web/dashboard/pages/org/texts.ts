// The texts of the person's own parts of the organization page.

export const sessions = {
  title: "Your login sessions",
  intro: "The browsers and programs that are signed in to your account. If you don’t recognize a session, end it, and ask an admin for a link to set a new password.",
  program: "Browser or program",
  address: "IP address",
  since: "Since",
  lastUsed: "Last used",
  actions: "Actions",
  thisOne: "this one",
  unknown: "unknown",
  on: (browser: string, system: string) => `${browser} on ${system}`,
  end: "End",
  endThis: "End this session",
  endFrom: (address: string) => `End the session from ${address}`,
  endQuestion: "End this session?",
  endsHere: "You will be signed out here.",
  endsThere: "The browser or program that uses it is signed out within five seconds.",
};

export const invitations = {
  title: "Your invitations",
  intro: "Invitations to your email address from other organizations.",
  unproven: "To accept or decline an invitation, open the link that you received. Invitations are listed here after your email address is verified, for example by signing in with your organization's account.",
  none: "You have no open invitations.",
  organization: "Organization",
  role: "Role",
  expires: "Expires",
  actions: "Actions",
  accept: "Accept",
  acceptFrom: (organization: string) => `Accept the invitation from ${organization}`,
  decline: "Decline",
  declineFrom: (organization: string) => `Decline the invitation from ${organization}`,
  declineQuestion: (organization: string) => `Decline the invitation from ${organization}?`,
  declines: "Its link stops working.",
  declined: (organization: string) => `You declined the invitation from ${organization}.`,
};
