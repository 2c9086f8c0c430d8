// Applies the theme that was chosen in the dashboard to a page of the documentation. The page loads this script in its head,
// after the style sheet, so that the browser runs it before it paints the page.
import { applyTheme, theme } from "../dashboard/theme";

applyTheme(theme());
