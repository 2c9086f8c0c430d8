package charset_test

import (
	"strings"
	"testing"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"

	ours "parley/workers/internal/parse/charset"
)

const (
	russian = "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом и совестью."
	polish  = "Zażółć gęślą jaźń. Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw."
	chinese = "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。"
)

func TestGuess(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ encoding, text string }{
		"German":          {"windows-1252", "Der Fuchs springt über den faulen Hund. Größe, Straße, Übermut und Ähnliches gehören dazu – „ja“."},
		"French":          {"windows-1252", "Les élèves ont été reçus à l’école où l’été est déjà arrivé ; ça coûte 5 € à peu près, n’est-ce pas ?"},
		"Polish":          {"windows-1250", polish},
		"Polish, Latin 2": {"iso-8859-2", polish},
		"Hungarian":       {"windows-1250", "Minden emberi lény szabadon születik és egyenlő méltósága és joga van. Az emberek, ésszel és lelkiismerettel bírván."},
		"Turkish":         {"windows-1254", "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. Akıl ve vicdana sahiptirler."},
		"Russian":         {"windows-1251", russian},
		"Russian, KOI8":   {"koi8-r", russian},
		"Russian, DOS":    {"ibm866", russian},
		"Ukrainian":       {"windows-1251", "Всі люди народжуються вільними і рівними у своїй гідності та правах. Вони наділені розумом і совістю."},
		"Greek":           {"windows-1253", "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα."},
		"Hebrew":          {"windows-1255", "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. כולם חוננו בתבונה ובמצפון."},
		"Arabic":          {"windows-1256", "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق. وقد وهبوا عقلا وضميرا وعليهم أن يعامل بعضهم بعضا."},
		"Thai":            {"windows-874", "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ ต่างมีเหตุผลและมโนธรรม"},
		"Chinese":         {"gb18030", chinese},
		"Chinese, short":  {"gb18030", "姓名,年龄,城市\n张三,30,北京\n李四,25,上海\n"},
		"Traditional":     {"big5", "人人生而自由，在尊嚴和權利上一律平等。他們賦有理性和良心，並應以兄弟關係的精神相對待。"},
		"Japanese":        {"shift_jis", "氏名,年齢,都市\n田中,30,東京\nスズキ,25,大阪\n"},
		"Japanese, Unix":  {"euc-jp", "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。"},
		"Japanese, mail":  {"iso-2022-jp", "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。"},
		"Korean":          {"euc-kr", "이름,나이,도시\n김철수,30,서울\n박영희,25,부산\n"},
		"late accents":    {"windows-1252", strings.Repeat("plain words ", 20_000) + "Größe und Übermut gehören für Ähnliches."},
		"UTF-8":           {"utf-8", polish + russian + chinese},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, _ := charset.Lookup(c.encoding)
			content, err := e.NewEncoder().Bytes([]byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			if got, as := ours.Decode(content, ""); got != c.text {
				t.Errorf("guessed %s: %.300q", as, got)
			}
			if got, as := ours.Decode(content, c.encoding); got != c.text {
				t.Errorf("declared, decoded as %s: %.300q", as, got)
			}
		})
	}
}

func TestWide(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"Plain words, 123.\n", russian + "\n", polish, strings.Repeat(chinese, 3) + " 12\n" + chinese + "\n"} {
		for name, encode := range map[string]func(string) (string, error){
			"UTF-16 LE":           unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM).NewEncoder().String,
			"UTF-16 BE":           unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM).NewEncoder().String,
			"UTF-16 LE with mark": unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String,
			"UTF-16 BE with mark": unicode.UTF16(unicode.BigEndian, unicode.UseBOM).NewEncoder().String,
			"UTF-32 LE":           utf32.UTF32(utf32.LittleEndian, utf32.IgnoreBOM).NewEncoder().String,
			"UTF-32 BE with mark": utf32.UTF32(utf32.BigEndian, utf32.UseBOM).NewEncoder().String,
		} {
			content, err := encode(text)
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := ours.Decode([]byte(content), "windows-1252"); got != text {
				t.Errorf("%s of %.20q became %.60q", name, text, got)
			}
		}
	}
}

func TestMarksAndMistakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ content, declared, want string }{
		"a mark":                       {"\xEF\xBB\xBFGrüße", "windows-1252", "Grüße"},
		"UTF-8, though declared other": {"Grüße an alle", "iso-8859-1", "Grüße an alle"},
		"declared UTF-8, but is not":   {"Viele Gr\xfc\xdfe aus M\xfcnchen und sch\xf6ne Tage", "utf-8", "Viele Grüße aus München und schöne Tage"},
		"declared what there is not":   {"Viele Gr\xfc\xdfe aus M\xfcnchen und sch\xf6ne Tage", "no-such", "Viele Grüße aus München und schöne Tage"},
		"a cut character":              {strings.Repeat("Größe ", 20) + "\xc3", "", strings.Repeat("Größe ", 20) + "\xc3"},
		"a zero among words":           {"some words\x00 and some more of them", "", "some words\x00 and some more of them"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, as := ours.Decode([]byte(c.content), c.declared); got != c.want {
				t.Errorf("became %q as %s, want %q", got, as, c.want)
			}
		})
	}
}
