//go:build linux

package sandboxtest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
)

// question is an honest program, together with the output that it must print.
type question struct{ code, answer string }

// generateHonest generates n honest programs. The same seed always generates the same programs.
func generateHonest(seed uint64, n int) []question {
	random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // must be repeatable
	makers := []func(*rand.Rand) question{askSum, askPower, askSort, askHash, askText, askDivisor, askFile, askValue}
	made := make([]question, n)
	for i := range made {
		made[i] = makers[i%len(makers)](random)
	}
	return made
}

func askSum(r *rand.Rand) question {
	factor, count := r.Int64N(1000)+1, r.Int64N(50_000)
	return question{
		code:   fmt.Sprintf("print(sum(%d * i for i in range(%d)))", factor, count+1),
		answer: fmt.Sprintln(factor * count * (count + 1) / 2),
	}
}

func askPower(r *rand.Rand) question {
	base, power := r.Int64N(1_000_000)+2, r.Int64N(60)+2
	return question{
		code:   fmt.Sprintf("result = 1\nfor _ in range(%d):\n    result *= %d\nprint(result)", power, base),
		answer: new(big.Int).Exp(big.NewInt(base), big.NewInt(power), nil).String() + "\n",
	}
}

func askSort(r *rand.Rand) question {
	numbers := make([]int, 200)
	for i := range numbers {
		numbers[i] = r.IntN(1_000_000)
	}
	text := func() string {
		return "[" + strings.Join(strings.Fields(strings.Trim(fmt.Sprint(numbers), "[]")), ", ") + "]"
	}
	code := "print(sorted(" + text() + "))"
	slices.Sort(numbers)
	return question{code: code, answer: text() + "\n"}
}

func askHash(r *rand.Rand) question {
	word := fmt.Sprint("word ", r.Int64())
	sum := sha256.Sum256([]byte(word))
	return question{
		code:   fmt.Sprintf("import hashlib\nprint(hashlib.sha256(%q.encode()).hexdigest())", word),
		answer: hex.EncodeToString(sum[:]) + "\n",
	}
}

func askText(r *rand.Rand) question {
	word, times := fmt.Sprint(r.Int32N(1000), "ä"), r.IntN(500)+1
	return question{
		code:   fmt.Sprintf("text = %q * %d\nprint(len(text), text.upper()[-1], text.count('ä'))", word, times),
		answer: fmt.Sprintf("%d Ä %d\n", len([]rune(word))*times, times),
	}
}

func askDivisor(r *rand.Rand) question {
	a, b := r.Int64N(1e12)+1, r.Int64N(1e12)+1
	return question{
		code:   fmt.Sprintf("import math\na, b = %d, %d\nwhile b:\n    a, b = b, a %% b\nprint(a)\nmath.gcd(a, 2)", a, b),
		answer: new(big.Int).GCD(nil, nil, big.NewInt(a), big.NewInt(b)).String() + "\n",
	}
}

func askFile(r *rand.Rand) question {
	lines, word := r.IntN(2000)+1, r.Int32N(100_000)
	return question{
		code: fmt.Sprintf("import os\nassert os.listdir('.') == []\nopen('lines.txt', 'w').write('%d\\n' * %d)\n"+
			"print(sum(int(line) for line in open('lines.txt')))", word, lines),
		answer: fmt.Sprintln(int(word) * lines),
	}
}

func askValue(r *rand.Rand) question {
	a, b := r.Int64N(1e9), r.Int64N(1e9)
	return question{
		code: fmt.Sprintf("import threading\nkept = []\nworker = threading.Thread(target=lambda: kept.append(%d * %d))\n"+
			"worker.start()\nworker.join()\nprint(kept[0])", a, b),
		answer: new(big.Int).Mul(big.NewInt(a), big.NewInt(b)).String() + "\n",
	}
}

// generateHostile generates n hostile programs. Each exceeds a limit in some way, and takes
// measures that make it hard to kill. The same seed always generates the same programs.
func generateHostile(seed uint64, n int, tree string, h *host) []excess {
	random := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // must be repeatable
	aims := aimsFor(tree, h)
	made := make([]excess, n)
	for i := range made {
		aim := aims[i%len(aims)]
		var code strings.Builder
		for _, way := range ways() {
			if random.IntN(5) == 0 {
				code.WriteString(way + "\n")
			}
		}
		text := strings.ReplaceAll(aim.code, "NUMBER", fmt.Sprint(random.IntN(1000)))
		text = strings.ReplaceAll(text, "FOLDER", []string{"/work", "/tmp"}[random.IntN(2)])
		code.WriteString(text)
		made[i] = excess{name: fmt.Sprintf("%d, %s", i, aim.name), code: code.String(), fine: aim.fine, fatal: aim.fatal}
	}
	return made
}

// ways returns the measures with which a hostile program makes itself hard to kill.
func ways() []string {
	return []string{
		"deaf()",
		"daemon('MARK')",
		"daemon('MARK', close=False)",
		"os.nice(-20) if not os.getuid() else None",
		"if os.fork() == 0: os.setsid(); time.sleep(600)",
		"os.close(2)",
		"threading.Thread(target=time.sleep, args=(600,), daemon=True).start()",
		"sys.stdout.write('x' * 100_000)",
		"os.sched_setaffinity(0, os.sched_getaffinity(0))",
		"import gc; gc.disable()",
	}
}

// aimsFor returns the aims of hostile programs.
func aimsFor(tree string, h *host) []excess {
	return []excess{
		{name: "fork bomb", code: "bomb(patient=False)"},
		{name: "patient fork bomb", code: "bomb(patient=True)"},
		{name: "threads", code: "threads()"},
		{name: "one piece", code: "bytearray(NUMBER + (100 << 30))"},
		{name: "pieces", code: "pieces(1 << 20)"},
		{name: "children's memory", code: "many_children()"},
		{name: "shared memory", code: "mapped(shared=True)"},
		{name: "filling", code: "fill('FOLDER')"},
		{name: "files", code: "million('FOLDER', 'file')"},
		{name: "folders", code: "million('FOLDER', 'folder')"},
		{name: "output", code: "while True: print('x' * (NUMBER + 100))"},
		{name: "sleep", code: "time.sleep(600 + NUMBER)"},
		{name: "busy", code: "busy(4)"},
		{name: "stops all", code: "stop(-1)"},
		{name: "kills all", code: "kill(-1)", fatal: true},
		{name: "kills its parent", code: "kill(os.getppid())", fatal: true},
		{name: "files on the host", code: fmt.Sprintf(`for n in range(40):
    try:
        open(f"%s/{n %% 5}/file-{n}", "a").write("harm")
    except OSError:
        pass
raise SystemExit(1)`, tree)},
		{name: "removing all", code: `import shutil
for name in os.listdir("/"):
    shutil.rmtree("/" + name, ignore_errors=True)
raise SystemExit(1)`},
		{name: "signals to all", code: fmt.Sprintf(`for pid in %s + list(range(1, 300)):
    try:
        pid != os.getpid() and os.kill(pid, signal.SIGTERM)
    except OSError:
        pass
raise SystemExit(1)`, pythonList(h.pids))},
		{name: "random system calls", code: `import random
random.seed(NUMBER)
for _ in range(60):
    if os.fork() == 0:
        libc = ctypes.CDLL(None)
        for _ in range(20):
            words = [random.choice([0, 1, -1, 4096, 1 << 40, random.getrandbits(60)]) for _ in range(6)]
            libc.syscall(random.randrange(460), *map(ctypes.c_long, words))
        os._exit(0)
    try:
        os.wait()
    except OSError:
        pass
raise SystemExit(1)`},
	}
}

func pythonList(numbers []int) string {
	return "[" + strings.Join(strings.Fields(strings.Trim(fmt.Sprint(numbers), "[]")), ", ") + "]"
}
