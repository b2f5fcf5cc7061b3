package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"osaurus-sandbox/bridge/client"
	"osaurus-sandbox/bridge/wire"
)

const (
	forAnswer = time.Minute
	// forPlugin exceeds the bridge's own limit for an installation, whose error says more.
	forPlugin = 16 * time.Minute
	// unlimited is for chats: a model may think for long, and the host ends those that hang.
	unlimited = 0
	// maxInput bounds standard input to the largest request.
	maxInput = wire.MaxBody
	// many is any number of arguments.
	many = 1 << 20
)

// command is a command of this program.
type command struct {
	name        string // as in "config get"
	arguments   string // for help
	least, most int    // number of arguments
	limit       time.Duration
	summary     string
	example     string
	flags       []flag
	// run returns the answer: a text, or a value that is printed as JSON, or nil.
	run func(context.Context, *call) (any, error)
}

// flag is --name. It takes a value if value names one.
type flag struct{ name, short, value, summary string }

// commands returns all commands. Each has the flag --json too.
func commands() []command {
	list := []command{
		{"secrets get", "NAME", 1, 1, forAnswer, "print a secret", `curl -H "X-Api-Key: $(osaurus-host secrets get API_KEY)" …`, nil, secretsGet},
		{"config get", "KEY", 1, 1, forAnswer, "print a setting of the plugin", "osaurus-host config get last_sync", nil, configGet},
		{"config set", "KEY VALUE|-", 2, 2, forAnswer, "change a setting of the plugin", `osaurus-host config set last_sync "$(date -u +%FT%TZ)"`, nil, configSet},
		{"inference chat", "", 0, 0, unlimited, "ask a model; the message is standard input without --message", "git diff | osaurus-host inference chat --system 'Review this.'", []flag{
			{"message", "m", "TEXT|-", "the message"},
			{"system", "", "TEXT", "the system prompt"},
			{"model", "", "NAME", "another model than the host's default"},
			{"stream", "", "", "print the answer as it comes, as on a terminal"},
		}, inferenceChat},
		{"agent dispatch", "ID TASK|-", 2, 2, forAnswer, "create a task for the app that the agent works for", `osaurus-host agent dispatch "" 'Summarise the news' --session-key news-today`, []flag{
			{"session-key", "", "KEY", "return the task with this key if there is one"},
		}, agentDispatch},
		{"agent memory query", "TEXT|-", 1, 1, forAnswer, "search the agent's memory", "osaurus-host agent memory query 'favourite colour'", nil, memoryQuery},
		{"agent memory store", "TEXT|-", 1, 1, forAnswer, "add a fact to the agent's memory", "osaurus-host agent memory store 'Her favourite colour is green.'", nil, memoryStore},
		{"events emit", "TYPE [JSON|-]", 1, 2, forAnswer, "publish an event", `osaurus-host events emit rss.new_item '{"title":"Hello"}'`, nil, eventsEmit},
		{"plugin create", "[FILE|-]", 0, 1, forPlugin, "make a plugin from a recipe: a file, or standard input", "osaurus-host plugin create recipe.json", nil, pluginCreate},
		{"log", "[LEVEL] MESSAGE|-", 1, many, forAnswer, "write a line to the log; LEVEL is debug, info (the default), warn, error or stdout", "osaurus-host log warn 'The feed is empty.'", nil, logLine},
	}
	for i := range list {
		list[i].flags = append(list[i].flags, flag{name: "json", summary: "print the answer, and an error, as JSON"})
	}
	return list
}

// call is one run of a command.
type call struct {
	system
	given
	*client.Client
}

func (c *call) has(flag string) bool { return c.flags[flag] != "" }

// either returns an answer as text, or as JSON with --json.
func (c *call) either(text string, asJSON any) any {
	if c.has("json") {
		return asJSON
	}
	return text
}

// text returns an argument. "-" stands for standard input without its last newline.
func (c *call) text(argument string) (string, error) {
	if argument != "-" {
		return argument, nil
	}
	text, err := readAll(c.in)
	return strings.TrimSuffix(text, "\n"), err
}

func readAll(in io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err == nil && len(text) > maxInput {
		err = misused(fmt.Sprintf("standard input is larger than %d MiB", maxInput>>20), "Split it up.")
	}
	return string(text), err
}

func secretsGet(ctx context.Context, c *call) (any, error) {
	v, err := c.Secret(ctx, c.words[0])
	return c.either(v, wire.Value{Value: v}), err
}

func configGet(ctx context.Context, c *call) (any, error) {
	v, err := c.Config(ctx, c.words[0])
	return c.either(v, wire.Value{Value: v}), err
}

func configSet(ctx context.Context, c *call) (any, error) {
	value, err := c.text(c.words[1])
	if err != nil {
		return nil, err
	}
	return nil, c.SetConfig(ctx, c.words[0], value)
}

func inferenceChat(ctx context.Context, c *call) (any, error) {
	message, given := c.flags["message"]
	if !given {
		message = "-"
	}
	message, err := c.text(message)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(message) == "" {
		return nil, misused("inference chat: there is nothing to ask", "Use --message TEXT or standard input.")
	}
	chat := wire.Chat{Model: c.flags["model"]}
	if system, ok := c.flags["system"]; ok {
		chat.Messages = append(chat.Messages, wire.ChatMessage{Role: "system", Content: system})
	}
	chat.Messages = append(chat.Messages, wire.ChatMessage{Role: "user", Content: message})
	var show func(string) error
	if !c.has("json") && (c.has("stream") || isDevice(c.out)) {
		show = func(part string) error {
			_, err := io.WriteString(c.out, part)
			return err
		}
	}
	answer, err := c.Chat(ctx, chat, show)
	if show != nil {
		return "", err // the answer was shown; only the newline is left
	}
	return c.either(answer, wire.Answer{Content: answer}), err
}

// isDevice reports whether a file is a terminal. /dev/null counts too, which does no harm.
func isDevice(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func agentDispatch(ctx context.Context, c *call) (any, error) {
	task, err := c.text(c.words[1])
	if err != nil {
		return nil, err
	}
	return c.Dispatch(ctx, wire.Dispatch{Task: task, AgentID: c.words[0], ExternalSessionKey: c.flags["session-key"]})
}

func memoryQuery(ctx context.Context, c *call) (any, error) {
	text, err := c.text(c.words[0])
	if err != nil {
		return nil, err
	}
	return c.Recall(ctx, text)
}

func memoryStore(ctx context.Context, c *call) (any, error) {
	text, err := c.text(c.words[0])
	if err != nil {
		return nil, err
	}
	return struct{}{}, c.Remember(ctx, text)
}

func eventsEmit(ctx context.Context, c *call) (any, error) {
	payload := "{}"
	if len(c.words) > 1 {
		var err error
		if payload, err = c.text(c.words[1]); err != nil {
			return nil, err
		}
	}
	if !json.Valid([]byte(payload)) {
		return nil, misused("events emit: the payload is not JSON", `Text in JSON has double quotes: '"text"'.`)
	}
	return nil, c.Emit(ctx, c.words[0], json.RawMessage(payload))
}

func pluginCreate(ctx context.Context, c *call) (any, error) {
	in := c.in
	if len(c.words) > 0 && c.words[0] != "-" {
		f, err := os.Open(c.words[0])
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	recipe, err := readAll(in)
	if err != nil {
		return nil, err
	}
	if !json.Valid([]byte(recipe)) {
		return nil, misused("plugin create: the recipe is not JSON", "A recipe is a JSON object with a name, a description and tools.")
	}
	return c.CreatePlugin(ctx, json.RawMessage(recipe))
}

// logLine accepts "LEVEL MESSAGE" and "MESSAGE", with any number of words. A single word is always
// a message.
func logLine(ctx context.Context, c *call) (any, error) {
	level, words := "info", c.words
	if len(words) > 1 && slices.Contains([]string{"debug", "info", "warn", "error", "stdout"}, words[0]) {
		level, words = words[0], words[1:]
	}
	message, err := c.text(strings.Join(words, " "))
	if err != nil {
		return nil, err
	}
	return nil, c.Log(ctx, level, message)
}
