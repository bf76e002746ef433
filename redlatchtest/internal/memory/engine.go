package memory

import (
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"github.com/redlatch/redlatch/conn"
)

// engine runs scripts. It keeps one Lua state for all runs of a server: creating one takes longer
// than a script. A script cannot leave anything in it, as in Redis.
type engine struct {
	store *store
	state *lua.LState
	redis *lua.LTable
	wrote bool // the running script has written
}

// compiled has the scripts of all servers, by their text.
var compiled sync.Map

func newEngine(s *store) *engine {
	e := &engine{store: s, state: lua.NewState(lua.Options{
		SkipOpenLibs: true, RegistrySize: 4096, RegistryMaxSize: 1 << 18, RegistryGrowStep: 4096,
	})}
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath,
	} {
		e.state.Push(e.state.NewFunction(open))
		e.state.Push(lua.LString(name))
		e.state.Call(1, 0)
	}
	e.state.SetGlobal("tonumber", e.state.NewFunction(toNumber))
	e.state.SetGlobal("tostring", e.state.NewFunction(toText))
	e.state.GetGlobal("string").(*lua.LTable).RawSetString("format", e.state.NewFunction(format))
	e.remember(e.state.GetGlobal("string").(*lua.LTable))
	e.redis = e.state.NewTable()
	for name, f := range map[string]lua.LGFunction{"call": e.call, "pcall": e.pcall, "error_reply": e.errorReply, "status_reply": e.statusReply} {
		e.redis.RawSetString(name, e.state.NewFunction(f))
	}
	e.tellVersion(false)
	e.state.SetGlobal("redis", e.redis)

	closed := e.state.NewTable()
	refuse := func(text string) *lua.LFunction {
		return e.state.NewFunction(func(l *lua.LState) int {
			l.RaiseError(text, l.ToStringMeta(l.Get(2)).String())
			return 0
		})
	}
	closed.RawSetString("__newindex", refuse("Attempt to modify a readonly table, global variable '%s'"))
	closed.RawSetString("__index", refuse("Script attempted to access nonexistent global variable '%s'"))
	e.state.SetMetatable(e.state.G.Global, closed)
	return e
}

// remember makes string.match cache its results: gopher-lua compiles the pattern in each call,
// which was an eighth of all that a simulation does.
func (e *engine) remember(library *lua.LTable) {
	match := library.RawGetString("match").(*lua.LFunction).GFunction
	known := make(map[[2]lua.LString][]lua.LValue)
	library.RawSetString("match", e.state.NewFunction(func(l *lua.LState) int {
		text, is := l.Get(1).(lua.LString)
		pattern, also := l.Get(2).(lua.LString)
		if !is || !also || l.GetTop() != 2 {
			return match(l)
		}
		values, found := known[[2]lua.LString{text, pattern}]
		if found {
			for _, v := range values {
				l.Push(v)
			}
			return len(values)
		}
		if len(known) == 4096 {
			clear(known)
		}
		n := match(l)
		for i := 3; i <= l.GetTop(); i++ {
			values = append(values, l.Get(i))
		}
		known[[2]lua.LString{text, pattern}] = values
		return n
	}))
}

// tellVersion sets the version that scripts see. Redis 6.0 shows them none.
func (e *engine) tellVersion(old bool) {
	e.redis.RawSetString("REDIS_VERSION_NUM", lua.LNumber(0x0007000f))
	if old {
		e.redis.RawSetString("REDIS_VERSION_NUM", lua.LNil)
	}
}

// eval runs a script.
func (e *engine) eval(script *conn.Script, keys, args []string) conn.Result {
	proto, err := compile(script.Text)
	if err != nil {
		return refused("ERR Error compiling script (new function): " + err.Error())
	}
	e.wrote = false
	l := e.state
	l.G.Global.RawSetString("KEYS", e.list(keys))
	l.G.Global.RawSetString("ARGV", e.list(args))
	l.Push(l.NewFunctionFromProto(proto))
	if err := l.PCall(0, 1, nil); err != nil {
		l.SetTop(0)
		return refused(errorText(err) + " script: " + script.SHA1 + ", on @user_script.")
	}
	v := l.Get(-1)
	l.SetTop(0)
	if table, is := v.(*lua.LTable); is {
		if text, is := table.RawGetString("err").(lua.LString); is {
			return refused(string(text))
		}
	}
	return conn.Result{Reply: luaReply(v)}
}

func refused(text string) conn.Result { return conn.Result{Err: &conn.ReplyError{Text: text}} }

// errorText returns the text of the error that a script raised: the error of a command, or one of
// the script's own.
func errorText(err error) string {
	raised, is := err.(*lua.ApiError)
	if !is {
		return "ERR " + err.Error()
	}
	if table, is := raised.Object.(*lua.LTable); is {
		if text, is := table.RawGetString("err").(lua.LString); is {
			return string(text)
		}
	}
	return "ERR " + raised.Object.String()
}

func compile(text string) (*lua.FunctionProto, error) {
	if proto, found := compiled.Load(text); found {
		return proto.(*lua.FunctionProto), nil
	}
	chunk, err := parse.Parse(strings.NewReader(text), "user_script")
	if err != nil {
		return nil, err
	}
	proto, err := lua.Compile(chunk, "user_script")
	if err == nil {
		compiled.Store(text, proto)
	}
	return proto, err
}

func (e *engine) list(texts []string) *lua.LTable {
	table := e.state.CreateTable(len(texts), 0)
	for i, text := range texts {
		table.RawSetInt(i+1, lua.LString(text))
	}
	return table
}

// call implements redis.call. A command's error ends the script unless Lua's pcall catches it.
func (e *engine) call(l *lua.LState) int {
	v, err := e.command(l)
	if err != nil {
		l.Error(e.fail(err.Error()), 1)
		return 0
	}
	l.Push(v)
	return 1
}

// pcall implements redis.pcall. It returns an error of the command as a table with the field err.
func (e *engine) pcall(l *lua.LState) int {
	v, err := e.command(l)
	if err != nil {
		v = e.fail(err.Error())
	}
	l.Push(v)
	return 1
}

func (e *engine) errorReply(l *lua.LState) int {
	text := l.CheckString(1)
	if !strings.Contains(text, " ") {
		text = "ERR " + text
	}
	l.Push(e.fail(text))
	return 1
}

func (e *engine) statusReply(l *lua.LState) int {
	l.Push(e.value(status(l.CheckString(1))))
	return 1
}

func (e *engine) fail(text string) *lua.LTable {
	table := e.state.NewTable()
	table.RawSetString("err", lua.LString(text))
	return table
}

// command runs the command on the Lua stack.
func (e *engine) command(l *lua.LState) (lua.LValue, error) {
	args := make([]string, l.GetTop())
	for i := range args {
		switch v := l.Get(i + 1).(type) {
		case lua.LString:
			args[i] = string(v)
		case lua.LNumber:
			args[i] = numberText(float64(v))
		default:
			return nil, errCommandArguments
		}
	}
	v, err := e.store.command(args, &e.wrote)
	if err != nil {
		return nil, err
	}
	return e.value(v), nil
}

var errCommandArguments = &conn.ReplyError{Text: "ERR Lua redis lib command arguments must be strings or integers"}

// value converts a command's result to the value that a script sees.
func (e *engine) value(v any) lua.LValue {
	switch v := v.(type) {
	case nil:
		return lua.LFalse
	case int64:
		return lua.LNumber(v)
	case string:
		return lua.LString(v)
	case status:
		table := e.state.NewTable()
		table.RawSetString("ok", lua.LString(v))
		return table
	case []any:
		table := e.state.CreateTable(len(v), 0)
		for i := range v {
			table.RawSetInt(i+1, e.value(v[i]))
		}
		return table
	}
	panic("memory: a command returned what no script can see")
}

// luaReply converts a script's result to the reply that a client sees.
func luaReply(v lua.LValue) conn.Reply {
	switch v := v.(type) {
	case lua.LNumber:
		return conn.Reply{Int: int64(v)}
	case lua.LString:
		return conn.Reply{Text: string(v)}
	case lua.LBool:
		if v {
			return conn.Reply{Int: 1}
		}
	case *lua.LTable:
		if text, is := v.RawGetString("ok").(lua.LString); is {
			return conn.Reply{Text: string(text)}
		}
		list := []conn.Reply{}
		for i := 1; v.RawGetInt(i) != lua.LNil; i++ {
			list = append(list, luaReply(v.RawGetInt(i)))
		}
		return conn.Reply{List: list}
	}
	return conn.Reply{Nil: true}
}
