package web

import (
	"fmt"
	"html/template"
)

// texts contains the texts of the pages without scripts, as HTML. The formatting verbs in a text
// are replaced by escaped values.
var texts = map[string]string{
	// Texts of the template frame.html.
	"brand":        "Parley",
	"title":        "%s · Parley",
	"emailAddress": "Email address",
	"password":     "Password",
	"passwordRule": "At least 8 characters.",

	// Texts of the template login.html.
	"signIn":           "Sign in",
	"signInToOpen":     "Sign in to open this page.",
	"or":               "or",
	"signInWithOpenID": "Sign in with your organization’s account",
	"takeOver": `Does another person's account use your email address? <a href="/api/auth/oidc?takeover=1">Take it over</a> ` +
		`to get your own account.`,
	"noAccountYet": `No account yet? <a href="/signup">Sign up</a>, or <a href="/dashboard/templates?token=demo">try the demo</a> ` +
		`without one.`,
	"forgotPassword": `Forgot your password, or never set one? Ask an admin for a link to set a new password, or the operator of this ` +
		`service: <code>%s <var>email</var></code> prints such a link.`,
	"ownersPassword": `Forgot the password, or never set one? On the server, in the directory where Parley was started, this command ` +
		`prints a link to set a new password: <code>%s %s</code>. For another account, replace the email address.`,
	"oneTimeLink": `Each start of Parley also prints a new login link, and stores it as <code>loginUrl</code> in ` +
		`<code>credentials.json</code> in the data directory. A login link works once.`,

	// Texts of the template signup.html.
	"signUp":             "Sign up",
	"ownOrganization":    "You get your own organization. You can also join other organizations by invitation.",
	"yourName":           `Your name <span class="hint">(optional)</span>`,
	"choosePassword":     "Choose a password",
	"createAccount":      "Create account",
	"alreadyHaveAccount": `Already have an account? <a href="/login">Sign in</a>`,

	// Texts of the template accept.html.
	"joinAnOrganization": "Join an organization",
	"join":               "Join %s",
	"invited":            "You are invited to join as %s. The invitation is for <strong>%s</strong>.",
	"signedIn":           "You are signed in with this email address.",
	"joinOrganization":   "Join organization",
	"joinWithAccount":    "Join with your account",
	"signInAndJoin":      "Sign in and join",
	"joinWithNewAccount": "Join with a new account",
	"takesOver":          "If an older account uses your email address, the address moves to the account that you create now.",
	"createAndJoin":      "Create account and join",
	"decline":            "Decline invitation",

	// Texts of the template reset.html.
	"setNewPassword":       "Set a new password",
	"forAccount":           "For the account <strong>%s</strong>. All other sessions of this account are signed out.",
	"newPassword":          "New password",
	"setPasswordAndSignIn": "Set password and sign in",

	// Texts of the template notice.html.
	"openDashboard": `<a href="/dashboard">Open the dashboard</a> or <a href="/docs">read the documentation</a>.`,

	// Texts of the template preview.html.
	"widgetPreview": "Widget preview",
	"showsWidget": "This page shows the widget as it appears on your pages. The chat with agent <code>%s</code> opens from the corner " +
		"of the window.",
	"noChatAppears":        "If no chat appears, the agent does not allow this page’s origin.",
	"openEmbedPage":        "Open the agent’s Embed page",
	"previewWithoutOrigin": ", which has a preview that needs no origin.",

	// Texts of the template dashboard.html.
	"needsJavaScript": `The dashboard needs JavaScript. Enable it, or use <a href="/docs/api">the API</a>, which offers every action ` +
		`of the dashboard.`,
}

// formatText returns a text with its values filled in. Values are escaped unless they are HTML. The
// number of values must be that of the verbs in the text. formatText returns an error if the name
// is unknown.
func formatText(name string, values ...any) (template.HTML, error) {
	format, ok := texts[name]
	if !ok {
		return "", fmt.Errorf("no text %q", name)
	}
	for i, value := range values {
		if _, ok := value.(template.HTML); !ok {
			values[i] = template.HTMLEscaper(value)
		}
	}
	if len(values) == 0 {
		return template.HTML(format), nil //nolint:gosec // a text of the table
	}
	return template.HTML(fmt.Sprintf(format, values...)), nil //nolint:gosec // the values are escaped
}
