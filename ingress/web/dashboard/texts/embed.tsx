// The texts of the Embed tab of an agent.

export enum Words {
  // Texts of the module pages/agent/appearance.
  rightCorner = "Right corner",
  leftCorner = "Left corner",
  theVisitorsSystem = "The visitor’s system",
  light = "Light",
  dark = "Dark",
  howItLooks = "How it looks",
  previewWorksWithoutOrigin = "The preview works even if no origin is allowed, and sends messages in your name.",
  lookIsPartOfCode = "The look is part of the code, and is not stored with the agent. Copy the code again after a change. Only this browser remembers your choices.",
  copyTheCode = "Copy the code",
  title = "Title",
  greeting = "Greeting",
  howCanIHelp = "How can I help?",
  firstTextInChat = "The first message in the chat, in Markdown.",
  lightOrDark = "Light or dark",
  position = "Position",
  accentColour = "Accent colour",
  defaultWord = "default",
  useTheDefault = "Use the default",
  textOnItIsBlack = "Text on this colour is black or white, whichever is easier to read.",
  couldntLoadPreviewReload = "Couldn’t load the preview. Reload the page.",
  previewOfWidget = "Preview of the widget",

  // Texts of the module pages/agent/embed.
  youCanViewThese = "You can view these settings. Only admins and owners of the organization can change them.",
  whereItMayAppear = "Where the widget may appear",
  widgetShowsChat = "The widget shows a chat with this agent on your own pages. The page contains no API key: browsers get short-lived tokens, and only on the origins listed here.",
  widget = "Widget",
  pagesOnAllowedOrigins = "Pages on the allowed origins can show this agent.",
  putItOnYourPage = "Put it on your page",
  pasteItBeforeEnd = "Paste this code at the end of the page’s body. A second copy on the page has no effect.",
  scriptTag = "Script tag",
  orInlineWhereElement = "Or inside the page, where you place this element",
  element = "Element",
  ifPageHasContent = "If the page has a Content-Security-Policy",
  policyMustAllow = "The policy must allow this service’s script and requests to this service. The widget needs no inline scripts or styles.",
  contentSecurityPolicy = "Content-Security-Policy",
  signedVisitors = "Signed visitors",
  optionalWithoutIdentitySecret = "Optional. Without an identity secret, visitors are anonymous, and only their browser remembers their chat. If your server signs their identity, they find their chat on every device, and no other visitor can impersonate them.",
  identitySecret = "Identity secret",
  to256Characters = "16 to 256 characters. Store it only on your server.",
  signAVisitor = "Sign a visitor",
  scriptTagWithSigned = "Script tag with a signed visitor",
  allowedOrigins = "Allowed origins",
  noOriginYet = "No origin yet, so no page can show the widget. Add an origin.",
  widgetIsOff = "The widget is off, so no page can show it. Switch it on above.",
  theOrigin = "The origin",
  theList = "The list",
  addAnOrigin = "Add an origin",
  schemeAndHost = "The scheme, the host, and the port if it isn’t the default. Separate several origins with spaces.",
  add = "Add",
  attachments = "Attachments",
  visitorsCanAttachImages = "Visitors can attach images and documents to their messages. Anyone can be a visitor, and the model reads what visitors send.",

  // Texts of the module pages/agent/origin.
  patternsAreNotSupported = "Patterns are not supported. Add each origin separately, for example https://www.example.com.",
  useSchemeAndHost = "Enter a scheme and a host without a path, for example https://www.example.com.",
}

// Texts of the module pages/agent/appearance.
export const openPageWithWidget = (href: string) => <><a href={href} target="_blank" rel="noopener">Open a test page with the widget</a>, as visitors see it.</>;

// Texts of the module pages/agent/embed.
export const widgetOfName = (name: string): string => `Widget of ${name}`;
export const removeValue = (value: string): string => `Remove ${value}`;

// Texts of the module pages/agent/origin.
export const notOriginForExample = (wrong: string, why: string): string => `Not an origin: ${wrong}. ${why}`;
