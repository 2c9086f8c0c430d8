package espeak

import (
	"errors"
	"slices"
	"testing"

	"parley/workers/internal/speech"
	"parley/workers/internal/speech/speechtest"
)

const languageRows = `Pty Language       Age/Gender VoiceName          File                 Other Languages
 5  af              --/M      Afrikaans          gmw/af
 5  cmn             --/M      Chinese_(Mandarin,_latin_as_English) sit/cmn              (zh-cmn 5)(zh 5)
 2  en-gb           --/M      English_(Great_Britain) gmw/en               (en 2)
 2  en-us           --/M      English_(America)  gmw/en-US            (en 3)
 5  en-us-nyc       --/M      English_(America,_New_York_City) gmw/en-US-nyc
 5  ru-LV           --/M      Russian_(Latvia)   zle/ru-LV
`

const variantRows = `Pty Language       Age/Gender VoiceName          File                 Other Languages
 5  variant         --/M      Alex               !v/Alex
 5  variant         --/M      Mr serious         !v/Mr serious
 5  variant         --/F      female3            !v/f3
`

func TestVoicesAreRead(t *testing.T) {
	t.Parallel()
	v := parseVoices(languageRows, variantRows)
	if want := []string{"af", "cmn", "zh-cmn", "zh", "en-gb", "en", "en-us", "en", "en-us-nyc", "ru-lv"}; !slices.Equal(v.languages, want) {
		t.Errorf("languages %q, want %q", v.languages, want)
	}
	if want := []string{"Alex", "Mr", "f3"}; !slices.Equal(v.variants, want) {
		t.Errorf("variants %q, want %q", v.variants, want)
	}
	if v := parseVoices("", ""); len(v.languages)+len(v.variants) > 0 {
		t.Errorf("of nothing: %+v", v)
	}
}

func TestVoicesAreChosen(t *testing.T) {
	t.Parallel()
	v := parseVoices(languageRows, variantRows)
	for _, c := range []struct {
		voice, language, want string
		wrong                 error
	}{
		{"", "", "en-us+f5", nil},
		{"", "en", "en-us+f5", nil},
		{"", "EN", "en-us+f5", nil},
		{"", "zh", "zh+f5", nil},
		{"ash", "", "en-us+m3", nil},
		{"ash", "af", "af+m3", nil},
		{"af", "", "af", nil},
		{"af+f3", "zh", "af+f3", nil},
		{"ru-LV+Alex", "", "ru-lv+Alex", nil},
		{"", "xx", "", speech.ErrUnknownLanguage},
		{"ash", "../en", "", speech.ErrUnknownLanguage},
		{"xx", "", "", speech.ErrUnknownVoice},
		{"af+f9", "", "", speech.ErrUnknownVoice},
		{"af+F3", "", "", speech.ErrUnknownVoice},
		{"Ash", "", "", speech.ErrUnknownVoice},
		{"af+", "", "", speech.ErrUnknownVoice},
		{"+f3", "", "", speech.ErrUnknownVoice},
		{"af+../f3", "", "", speech.ErrUnknownVoice},
		{"-v", "", "", speech.ErrUnknownVoice},
		{"af\n", "", "", speech.ErrUnknownVoice},
	} {
		got, err := v.choose(speech.Line{Voice: c.voice, Language: c.language})
		if got != c.want || !errors.Is(err, c.wrong) || (err == nil) != (c.wrong == nil) {
			t.Errorf("%q in %q: %q, %v; want %q, %v", c.voice, c.language, got, err, c.want, c.wrong)
		}
	}
}

func TestOpenAIsVoicesAreInstalled(t *testing.T) {
	t.Parallel()
	s := installed(t, Config{Processes: 1})
	voices, err := s.installedVoices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, variant := range variants {
		if !slices.Contains(voices.variants, variant) {
			t.Errorf("%s is %s, which is not installed", name, variant)
		}
	}
}

func installed(t *testing.T, cfg Config) *Synthesizer {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Skipf("NOT TESTED: espeak-ng (scripts/setup test installs it): %v", err)
	}
	return s
}

func TestTheVoiceOfTheSettings(t *testing.T) {
	t.Parallel()
	set, plain := installed(t, Config{Processes: 1, Voice: "en-gb+m3"}), installed(t, Config{Processes: 1})
	say := func(s *Synthesizer, voice string) string {
		sound, err := speechtest.Say(t.Context(), s, speech.Line{Text: "one two", Voice: voice})
		if err != nil {
			t.Fatal(err)
		}
		return string(sound)
	}
	if say(set, "") != say(plain, "en-gb+m3") || say(set, "") == say(plain, "") || say(set, "alloy") != say(plain, "") {
		t.Error("SPEECH_VOICE is not used, or other voices are unavailable")
	}
}

func TestTextIsNotReadAsPhonemes(t *testing.T) {
	t.Parallel()
	if got := escapeText("a [[h@]] [[[b"); got != "a [ [h@]] [ [[b\n" {
		t.Errorf("%q", got)
	}
}

func BenchmarkSentence(b *testing.B) {
	s, err := New(Config{Processes: 2})
	if err != nil {
		b.Skipf("NOT TESTED: %v", err)
	}
	for b.Loop() {
		if _, err := speechtest.Say(b.Context(), s, speech.Line{Text: "The price of the ticket is twenty dollars, and the train leaves at seven."}); err != nil {
			b.Fatal(err)
		}
	}
}
