// The modules that more than one bundle uses. Each bundle imports all of them, so that the bundler
// writes them into one file. Otherwise it would write a file for each combination of bundles, and
// each file costs a request.
import "./answer/answer";
import "./answer/approval";
import "./answer/quote";
import "./chat/trouble";
import "./files";
import "./firstquestions";
import "./narrow";
import "./overview";
import "./panels";
import "./pages/agent/draft";
import "./pages/agents/delete";
import "./pages/org/chart";
import "./pages/org/counted";
import "./pages/runs/names";
import "./pages/runs/rows";
import "./router";
import "./state";
import "./texts/plural";
import "./ui/schema";
import "./ui/tabs";
import "./ui/uploads";
