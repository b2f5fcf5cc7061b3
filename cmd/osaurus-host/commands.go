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
	"osaurus-sandbox/internal/printable"
)

// How long the host may take. Chats have no limit here: a model may think for
// long, and the host ends what does not end.
const (
	forAnswer = time.Minute
	forPlugin = 16 * time.Minute // the bridge ends a request after 15, an installation after 11, and says so
)

// maxInput is what may come from standard input: no request may be larger.
const maxInput = wire.MaxBody

type command struct {
	name        string // "config get"
	arguments   string // as help shows them
	least, most int    // how many
	summary     string
	example     string
	flags       []flag
	run         func(context.Context, *call) error
}

// flag is --name, which takes a value if value names one.
type flag struct{ name, short, value, summary string }

// any number of words
const many = 1 << 20

var asJSON = flag{name: "json", summary: "print the answer, and an error, as JSON"}

// commands are all there are.
func commands() []command {
	return []command{
		{"secrets get", "NAME", 1, 1, "print a secret", `curl -H "X-Api-Key: $(osaurus-host secrets get API_KEY)" …`, []flag{asJSON}, secretsGet},
		{"config get", "KEY", 1, 1, "print what the plugin keeps under a key", "osaurus-host config get last_sync", []flag{asJSON}, configGet},
		{"config set", "KEY VALUE|-", 2, 2, "keep a value under a key", `osaurus-host config set last_sync "$(date -u +%FT%TZ)"`, []flag{asJSON}, configSet},
		{"inference chat", "", 0, 0, "ask a model; without --message, what comes in", "git diff | osaurus-host inference chat --system 'Review this.'", []flag{
			{"message", "m", "TEXT|-", "what to ask"},
			{"system", "", "TEXT", "what the model shall be"},
			{"model", "", "NAME", "another model than the host's"},
			{"stream", "", "", "print as it comes; on a terminal it does"},
			asJSON,
		}, inferenceChat},
		{"agent dispatch", "ID TASK|-", 2, 2, "hand a task to whoever serves the agent", `osaurus-host agent dispatch "" 'Summarise the news' --session-key news-today`, []flag{
			{"session-key", "", "KEY", "tasks with the same key are one"}, asJSON,
		}, agentDispatch},
		{"agent memory query", "TEXT|-", 1, 1, "find what the agent keeps in mind", "osaurus-host agent memory query 'favourite colour'", []flag{asJSON}, memoryQuery},
		{"agent memory store", "TEXT|-", 1, 1, "keep something in mind", "osaurus-host agent memory store 'Her favourite colour is green.'", []flag{asJSON}, memoryStore},
		{"events emit", "TYPE [JSON|-]", 1, 2, "tell an event", `osaurus-host events emit rss.new_item '{"title":"Hello"}'`, []flag{asJSON}, eventsEmit},
		{"plugin create", "[FILE|-]", 0, 1, "make a plugin of a recipe; without a file, of what comes in", "osaurus-host plugin create recipe.json", []flag{asJSON}, pluginCreate},
		{"log", "[LEVEL] MESSAGE|-", 1, many, "write a line to the log; LEVEL is debug, info (the default), warn, error or stdout", "osaurus-host log warn 'The feed is empty.'", []flag{asJSON}, logLine},
	}
}

// call is one run of a command.
type call struct {
	system
	given
}

func secretsGet(ctx context.Context, c *call) error {
	return c.value(ctx, (*client.Client).Secret)
}

func configGet(ctx context.Context, c *call) error {
	return c.value(ctx, (*client.Client).Config)
}

// value prints what has the name that was given.
func (c *call) value(ctx context.Context, get func(*client.Client, context.Context, string) (string, error)) error {
	return c.ask(ctx, forAnswer, func(ctx context.Context, b *client.Client) error {
		v, err := get(b, ctx, c.words[0])
		if err != nil {
			return err
		}
		if c.has("json") {
			return c.print(wire.Value{Value: v})
		}
		return c.say(v)
	})
}

func configSet(ctx context.Context, c *call) error {
	value, err := c.text(c.words[1])
	if err != nil {
		return err
	}
	return c.silent(ctx, func(ctx context.Context, b *client.Client) error { return b.SetConfig(ctx, c.words[0], value) })
}

func inferenceChat(ctx context.Context, c *call) error {
	message, given := c.flags["message"]
	if !given {
		message = "-"
	}
	message, err := c.text(message)
	if err != nil {
		return err
	}
	if strings.TrimSpace(message) == "" {
		return misused("inference chat: there is nothing to ask", "Say it with --message TEXT, or on standard input.")
	}
	chat := wire.Chat{Model: c.flags["model"]}
	if system, ok := c.flags["system"]; ok {
		chat.Messages = append(chat.Messages, wire.ChatMessage{Role: "system", Content: system})
	}
	chat.Messages = append(chat.Messages, wire.ChatMessage{Role: "user", Content: message})
	var tell func(string) error
	if !c.has("json") && (c.has("stream") || interactive(c.out)) {
		tell = func(part string) error {
			_, err := io.WriteString(c.out, part)
			return err
		}
	}
	return c.ask(ctx, 0, func(ctx context.Context, b *client.Client) error {
		answer, err := b.Chat(ctx, chat, tell)
		switch {
		case err != nil:
			return err
		case c.has("json"):
			return c.print(wire.Answer{Content: answer})
		case tell != nil:
			return c.say("")
		}
		return c.say(answer)
	})
}

func agentDispatch(ctx context.Context, c *call) error {
	task, err := c.text(c.words[1])
	if err != nil {
		return err
	}
	return c.ask(ctx, forAnswer, func(ctx context.Context, b *client.Client) error {
		d, err := b.Dispatch(ctx, wire.Dispatch{Task: task, AgentID: c.words[0], ExternalSessionKey: c.flags["session-key"]})
		if err != nil {
			return err
		}
		return c.print(d)
	})
}

func memoryQuery(ctx context.Context, c *call) error {
	text, err := c.text(c.words[0])
	if err != nil {
		return err
	}
	return c.ask(ctx, forAnswer, func(ctx context.Context, b *client.Client) error {
		found, err := b.Recall(ctx, text)
		if err != nil {
			return err
		}
		return c.print(found)
	})
}

func memoryStore(ctx context.Context, c *call) error {
	text, err := c.text(c.words[0])
	if err != nil {
		return err
	}
	return c.ask(ctx, forAnswer, func(ctx context.Context, b *client.Client) error {
		if err := b.Remember(ctx, text); err != nil {
			return err
		}
		return c.print(struct{}{})
	})
}

func eventsEmit(ctx context.Context, c *call) error {
	payload := "{}"
	if len(c.words) > 1 {
		var err error
		if payload, err = c.text(c.words[1]); err != nil {
			return err
		}
	}
	if !json.Valid([]byte(payload)) {
		return misused("events emit: the payload is no JSON", `A text is JSON in double quotes: '"text"'.`)
	}
	return c.silent(ctx, func(ctx context.Context, b *client.Client) error {
		return b.Emit(ctx, c.words[0], json.RawMessage(payload))
	})
}

func pluginCreate(ctx context.Context, c *call) error {
	in := c.in
	if len(c.words) > 0 && c.words[0] != "-" {
		f, err := os.Open(c.words[0])
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	recipe, err := readAll(in)
	if err != nil {
		return err
	}
	if !json.Valid([]byte(recipe)) {
		return misused("plugin create: the recipe is no JSON", "A recipe is a JSON object with a name, a description and tools.")
	}
	return c.ask(ctx, forPlugin, func(ctx context.Context, b *client.Client) error {
		created, err := b.CreatePlugin(ctx, json.RawMessage(recipe))
		if err != nil {
			return err
		}
		return c.print(created)
	})
}

// logLine takes "LEVEL MESSAGE" and "MESSAGE", of any number of words. A single
// word is a message, whatever it says.
func logLine(ctx context.Context, c *call) error {
	level, words := "info", c.words
	if len(words) > 1 && slices.Contains([]string{"debug", "info", "warn", "error", "stdout"}, words[0]) {
		level, words = words[0], words[1:]
	}
	message, err := c.text(strings.Join(words, " "))
	if err != nil {
		return err
	}
	return c.silent(ctx, func(ctx context.Context, b *client.Client) error { return b.Log(ctx, level, message) })
}

func (c *call) has(flag string) bool { return c.flags[flag] != "" }

// ask has f ask the bridge, for as long as limit; 0 is as long as it takes.
func (c *call) ask(ctx context.Context, limit time.Duration, f func(context.Context, *client.Client) error) error {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	b, err := c.bridge()
	if err != nil {
		return err
	}
	defer b.Close()
	return f(ctx, b)
}

// silent is ask for what has no answer but that it was done.
func (c *call) silent(ctx context.Context, f func(context.Context, *client.Client) error) error {
	return c.ask(ctx, forAnswer, func(ctx context.Context, b *client.Client) error {
		if err := f(ctx, b); err != nil || !c.has("json") {
			return err
		}
		return c.print(struct{}{})
	})
}

// text is an argument; "-" is what comes in, without the newline at its end.
func (c *call) text(argument string) (string, error) {
	if argument != "-" {
		return argument, nil
	}
	text, err := readAll(c.in)
	return strings.TrimSuffix(text, "\n"), err
}

func (c *call) say(line string) error {
	_, err := fmt.Fprintln(c.out, line)
	return err
}

func (c *call) print(answer any) error {
	text, err := printable.JSON(answer)
	if err != nil {
		return err
	}
	return c.say(string(text))
}
