package espeak

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"parley/workers/internal/speech"
	"parley/workers/internal/speech/process"
)

// The default is the voice whose speech pocketsphinx recognizes best.
const (
	defaultLanguage = "en-us"
	defaultVariant  = "f5"
)

// variants maps OpenAI's voice names to espeak-ng's voice variants.
var variants = map[string]string{
	"alloy": defaultVariant, "coral": "f2", "marin": "Andrea", "nova": "f3", "sage": "f1", "shimmer": "f4",
	"ash": "m3", "ballad": "m2", "cedar": "m7", "echo": "m8", "fable": "m4", "onyx": "m6", "verse": "m5",
}

// ownName matches the names of espeak-ng's own voices, which consist of a language and a variant. A
// name of this form cannot refer to a file outside of the folder with the voices.
var ownName = regexp.MustCompile(`^([A-Za-z]{2,4}(?:-[A-Za-z0-9]{1,12}){0,4})(?:\+([A-Za-z0-9][A-Za-z0-9_-]{0,30}))?$`)

// voices contains the voices that the installed espeak-ng supports. The names of languages are in
// lower case. A value does not change after it has been read.
type voices struct {
	languages []string
	variants  []string
}

var (
	// These match parts of rows in the output of espeak-ng: another language that a voice speaks,
	// and the file name of a variant.
	alsoSpeaks = regexp.MustCompile(`\(([a-z][a-z0-9-]*) \d+\)`)
	variantRow = regexp.MustCompile(`!v/(\S+)`)
)

// parseVoices parses the output of espeak-ng for the options --voices and --voices=variant. It
// ignores rows that it does not recognize.
func parseVoices(languages, variants string) voices {
	var v voices
	for row := range strings.Lines(languages) {
		fields := strings.Fields(row)
		if len(fields) < 2 || fields[1] == "Language" {
			continue
		}
		v.languages = append(v.languages, strings.ToLower(fields[1]))
		for _, other := range alsoSpeaks.FindAllStringSubmatch(row, -1) {
			v.languages = append(v.languages, other[1])
		}
	}

	for _, row := range variantRow.FindAllStringSubmatch(variants, -1) {
		v.variants = append(v.variants, row[1])
	}
	return v
}

// choose returns the name of espeak-ng's voice for a line. A voice name of OpenAI selects a variant
// in the line's language. A name of espeak-ng itself selects both the language and the variant.
// Other names fail with the code for an unknown voice.
//
// The check against the installed voices also ensures that a name neither refers to a file nor
// contains options.
func (v voices) choose(line speech.Line) (string, error) {
	base, err := v.language(line.Language)
	if err != nil {
		return "", err
	}
	if line.Voice == "" {
		return base + "+" + defaultVariant, nil
	}
	if variant, is := variants[line.Voice]; is {
		return base + "+" + variant, nil
	}
	parts := ownName.FindStringSubmatch(line.Voice)
	if parts == nil || !slices.Contains(v.languages, strings.ToLower(parts[1])) || parts[2] != "" && !slices.Contains(v.variants, parts[2]) {
		return "", &speech.Error{
			Code: speech.CodeUnknownVoice,
			Message: "Unknown voice. espeak-ng supports alloy, ash, ballad, cedar, coral, echo, fable, marin, nova, onyx, sage, shimmer and " +
				"verse, and its own voices, such as en-gb+f3.",
		}
	}
	if parts[2] == "" {
		return strings.ToLower(parts[1]), nil
	}
	return strings.ToLower(parts[1]) + "+" + parts[2], nil
}

// language returns espeak-ng's name for a language tag. For the tags "" and "en", the name is
// "en-us". language fails if the language is not installed.
func (v voices) language(named string) (string, error) {
	named = strings.ToLower(named)
	switch {
	case named == "" || named == "en":
		return defaultLanguage, nil
	case slices.Contains(v.languages, named):
		return named, nil
	}
	return "", &speech.Error{Code: speech.CodeUnknownLanguage, Message: "espeak-ng does not support this language."}
}

// installedVoices returns the installed voices. It reads them only once. After an error, the next
// call tries again. Concurrent calls wait for the first one.
func (s *Synthesizer) installedVoices(ctx context.Context) (voices, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.voices != nil {
		return *s.voices, nil
	}
	languages, err := s.list(ctx, "--voices")
	if err != nil {
		return voices{}, err
	}
	variants, err := s.list(ctx, "--voices=variant")
	if err != nil {
		return voices{}, err
	}
	v := parseVoices(languages, variants)
	s.voices = &v
	return v, nil
}

// list runs espeak-ng with an option and returns its output. The program is killed if it runs
// longer than the duration wall.
func (s *Synthesizer) list(ctx context.Context, option string) (string, error) {
	p, err := process.Start(s.command(option))
	if err != nil {
		return "", failed(err)
	}
	defer p.Kill()
	defer p.Limit(wall)()
	said, err := io.ReadAll(p.Reader(ctx))
	if ctx.Err() != nil {
		return "", fmt.Errorf("listing the voices: %w", ctx.Err())
	}
	if err != nil {
		return "", failed(err)
	}
	if err := p.Fault(); err != nil {
		return "", failed(err)
	}
	return string(said), nil
}
