package memory

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// integer parses an integer written as Redis would write it: without a plus or leading zeros.
func integer(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	digits := strings.TrimPrefix(text, "-")
	if err != nil || text[0] == '+' || digits[0] == '0' && text != "0" {
		return 0, errInteger
	}
	return n, nil
}

// float reads a score: a number, or an infinity.
func float(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) {
		return 0, errFloat
	}
	return f, nil
}

// scoreText writes a score as Redis does.
func scoreText(f float64) string {
	if f == 0 { // also of -0, which a small sorted set does not keep
		return "0"
	}
	return numberText(f)
}

// The functions below read and write numbers as the Lua in Redis does. They replace those of
// gopher-lua, which reads no exponent without a point, writes large numbers in full, and formats no
// number that is given as a string.

// numberText writes a number as Redis does when a script passes it to a command.
func numberText(f float64) string { return digits(f, 17) }

// digits writes a number with at most this many digits, as C's %g does.
func digits(f float64, most int) string {
	switch {
	case f == math.Trunc(f) && math.Abs(f) < 1e14 && (f != 0 || !math.Signbit(f)):
		return strconv.FormatInt(int64(f), 10)
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 0):
		return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(f, 'g', -1, 64)), "+")
	}
	return strconv.FormatFloat(f, 'g', most, 64)
}

// number returns a value as a number, and whether it is a number or a string with one.
func number(v lua.LValue) (f lua.LNumber, is bool) {
	switch v := v.(type) {
	case lua.LNumber:
		return v, true
	case lua.LString:
		text := strings.ToLower(strings.Trim(string(v), " \t\n\v\f\r"))
		if hex, is := strings.CutPrefix(text, "0x"); is {
			n, err := strconv.ParseUint(hex, 16, 64)
			return lua.LNumber(n), err == nil
		}
		n, err := strconv.ParseFloat(text, 64)
		return lua.LNumber(n), (err == nil || math.IsInf(n, 0)) && !strings.Contains(text, "_")
	}
	return 0, false
}

// toNumber implements Lua's tonumber, without the base argument.
func toNumber(l *lua.LState) int {
	if f, is := number(l.CheckAny(1)); is {
		l.Push(f)
	} else {
		l.Push(lua.LNil)
	}
	return 1
}

// toText implements Lua's tostring.
func toText(l *lua.LState) int {
	v := l.CheckAny(1)
	if f, is := v.(lua.LNumber); is {
		v = lua.LString(digits(float64(f), 14))
	}
	l.Push(l.ToStringMeta(v))
	return 1
}

// format implements Lua's string.format.
func format(l *lua.LState) int {
	text, out := l.CheckString(1), make([]byte, 0, 64)
	for arg := 2; ; {
		plain, rest, found := strings.Cut(text, "%")
		out = append(out, plain...)
		if !found {
			l.Push(lua.LString(out))
			return 1
		}
		n := len(rest) - len(strings.TrimLeft(rest, "-+ #0123456789.")) // of flags
		if n == len(rest) {
			l.RaiseError("invalid conversion to 'format'")
		}
		text = rest[n+1:]
		if rest[0] == '%' {
			out = append(out, '%')
			continue
		}
		out = convert(l, out, rest[:n+1], arg)
		arg++
	}
}

// convert appends an argument, in the form of a conversion such as ".0f".
func convert(l *lua.LState, out []byte, conversion string, arg int) []byte {
	verb := conversion[len(conversion)-1]
	if verb == 's' {
		text := l.CheckString(arg)
		if f, is := l.Get(arg).(lua.LNumber); is {
			text = digits(float64(f), 14)
		}
		if conversion == "s" {
			return append(out, text...)
		}
		return fmt.Appendf(out, "%"+conversion, text)
	}
	f, is := number(l.Get(arg))
	if !is {
		l.TypeError(arg, lua.LTNumber)
	}
	switch conversion { // the ones that the scripts use
	case "d":
		return strconv.AppendInt(out, int64(f), 10)
	case ".0f":
		if math.Abs(float64(f)) < 1<<63 {
			return strconv.AppendFloat(out, float64(f), 'f', 0, 64)
		}
	}
	switch verb {
	case 'd', 'i':
		return fmt.Appendf(out, "%"+conversion[:len(conversion)-1]+"d", int64(f))
	case 'x', 'X', 'o':
		return fmt.Appendf(out, "%"+conversion, int64(f))
	case 'f', 'e', 'E':
		if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
			return append(out, digits(float64(f), 6)...)
		}
		return fmt.Appendf(out, "%"+conversion, float64(f))
	}
	l.RaiseError("invalid option '%%%c' to 'format'", verb)
	return nil
}
