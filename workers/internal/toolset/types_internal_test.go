package toolset

import (
	"testing"

	"parley/shared/domain"
)

// TestToolTypes checks that the span of each tool's calls has the tool's type. Voice is no tool that
// models call.
func TestToolTypes(t *testing.T) {
	t.Parallel()
	for _, name := range domain.ToolNames {
		if (toolTypes[name] == "") != (name == "voice") {
			t.Errorf("the type of %s is %q", name, toolTypes[name])
		}
	}
}
