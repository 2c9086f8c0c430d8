// The texts of the frame around all pages.
import type { ComponentChildren } from "preact";

export enum Words {
  // Texts of the module api.
  cantReachServiceCheck = "Can’t reach the service. Check the connection and try again.",
  cantReachService = "Can’t reach the service, or its response was lost. Check whether the change was made before you try again.",

  // Texts of the module app.
  skipToContent = "Skip to content",
  thisPageFailed = "This page failed",
  couldntShowThisPage = "Couldn’t show this page",
  reloadThePage = "Reload the page",
  yourSavedData = "Your saved data is safe. Reload the page. If it fails again, the browser’s console shows the error.",
  notAvailableInDemo = "Not available in the demo",
  pageNotFound = "Page not found",
  demoOffersChats = "The demo only offers chats with templates",
  thereIsNothing = "There is nothing at this address",
  goToTemplates = "Go to templates",
  goToHome = "Go to Home",
  signUpToCreate = "Sign up to create agents, give them documents and run them on a schedule.",
  linkMayBeIncomplete = "The link may be incomplete, or the item was deleted.",

  // Texts of the module files.
  connectionLostBeforeWhole = "Connection lost before the whole file was sent. Try again.",
  uploadCancelled = "Upload cancelled.",

  // Texts of the module later.
  couldntLoadThisPage = "Couldn’t load this page",
  stillCouldntLoad = "Still couldn’t load",
  partOfDashboardCouldnt = "Part of the dashboard couldn’t be loaded",
  tryAgain = "Try again",
  serviceMayBeDown = "The service may be down, or was upgraded after you opened the dashboard. Check the connection and try again.",

  // Texts of the module password.
  setAPassword = "Set a password",
  done = "Done",
  aLinkSetsThePassword = "This command prints a link that sets your password. Run it on the server, in the directory where Parley was started:",
  commandThatPrintsTheLink = "the command that prints the link",
  linkWorksOnce = "The link works once, for one day, and signs out your other sessions.",
  signOutWithoutPassword = "Sign out without a password?",
  youHaveNoPassword = "You have no password, and the link that you used to sign in no longer works. To sign in again, you need a new link. Set a password first, or sign out anyway.",
  staySignedIn = "Stay signed in",
  signOutAnyway = "Sign out anyway",

  // Texts of the module rail.
  inbox = "Inbox",
  agents = "Agents",
  templates = "Templates",
  knowledge = "Knowledge",
  runs = "Runs",
  automations = "Automations",
  organization = "Organization",
  find = "Find",
  ctrl = "Ctrl",
  menu = "Menu",
  leaveTheDemo = "Leave the demo",
  signIn = "Sign in",
  signUp = "Sign up",
  waiting = "waiting",
  pages = "Pages",
  account = "Account: ",
  documentation = "Documentation",
  apiReference = "API reference",
  signOut = "Sign out",
  themeOfSystem = "System theme",
  lightTheme = "Light theme",
  darkTheme = "Dark theme",
  theme = "Theme",
  home = "Home",

  // Texts of the module title.
  parley = "Parley",

  // Texts of the module toolnames.
  webSearch = "Web search",
  codeExecution = "Code execution",
  httpEndpoints = "HTTP endpoints",
  mcpServers = "MCP servers",
  voice = "Voice",
}

// Texts of the module api.
export const serviceRespondedWithStatus = (status: number): string => `The service responded with status ${status}.`;

// Texts of the module later.
export const theServiceResponded = (status: number): string => `the service responded with status ${status}`;

// Texts of the module password.
export const adminsCreateLinks = (href: string) => <>Without access to the server, ask an admin, who may create such a link under <a href={href}>Organization</a>.</>;

// Texts of the module rail.
export const brand = (mark: ComponentChildren) => <>{mark}Parley</>;
export const findShortcut = (modifier: string): string => `${modifier} K`;

// Texts of the module title.
export const pageParley = (page: string): string => `${page} · Parley`;
