package config

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

func boolField(key string, at func(*Settings) *bool) field {
	return field{key: key, allowed: "true or false", raw: verbatim,
		set: func(s *Settings, raw json.RawMessage) error {
			switch string(raw) {
			case "true", "false":
				*at(s) = string(raw) == "true"
				return nil
			}
			return fmt.Errorf("%s is not true or false", brief(raw))
		},
		get: func(s *Settings) any { return *at(s) },
	}
}

func intField(key string, lo, hi int, at func(*Settings) *int) field {
	return field{key: key, allowed: fmt.Sprintf("a whole number from %d to %d", lo, hi), raw: verbatim,
		set: func(s *Settings, raw json.RawMessage) error {
			n, err := strconv.Atoi(string(raw))
			if err != nil {
				return fmt.Errorf("%s is not a whole number", brief(raw))
			}
			if n < lo || n > hi {
				return fmt.Errorf("%d is out of range", n)
			}
			*at(s) = n
			return nil
		},
		get: func(s *Settings) any { return *at(s) },
	}
}

func textField[T ~string](key, allowed string, parse func(string) (T, error), at func(*Settings) *T) field {
	return field{key: key, allowed: allowed, raw: quoted,
		set: func(s *Settings, raw json.RawMessage) error {
			v, err := parseText(raw, parse)
			if err == nil {
				*at(s) = v
			}
			return err
		},
		get: func(s *Settings) any { return *at(s) },
	}
}

func listField[T ~string](key, allowed string, parse func(string) (T, error), at func(*Settings) *[]T) field {
	return field{key: key, allowed: "a list, each item " + allowed, raw: listed,
		set: func(s *Settings, raw json.RawMessage) error {
			var items []json.RawMessage
			if raw[0] != '[' || json.Unmarshal(raw, &items) != nil {
				return fmt.Errorf("%s is not a list", brief(raw))
			}
			if len(items) > MaxListItems {
				return fmt.Errorf("%d items are more than %d", len(items), MaxListItems)
			}
			list := make([]T, len(items))
			for i, item := range items {
				v, err := parseText(item, parse)
				if err != nil {
					return fmt.Errorf("item %d: %w", i+1, err)
				}
				list[i] = v
			}
			*at(s) = list
			return nil
		},
		get: func(s *Settings) any { return *at(s) },
	}
}

// verbatim, quoted and listed turn a value from a command line into JSON.

func verbatim(text string) json.RawMessage { return json.RawMessage(text) }

func quoted(text string) json.RawMessage {
	raw, _ := json.Marshal(text) // a string always marshals
	return raw
}

func listed(text string) json.RawMessage {
	if strings.HasPrefix(text, "[") {
		return json.RawMessage(text)
	}
	items := []string{}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	raw, _ := json.Marshal(items)
	return raw
}

func parseText[T ~string](raw json.RawMessage, parse func(string) (T, error)) (T, error) {
	var text string
	if raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
		return "", fmt.Errorf("%s is not a text in quotes", brief(raw))
	}
	v, err := parse(text)
	if err != nil {
		return "", fmt.Errorf("%s is not allowed", brief(raw))
	}
	return v, nil
}

// briefLen is as much of a wrong value as helps to find it.
const briefLen = 60

// brief is a value for an error text: on one line and short.
func brief(raw json.RawMessage) string {
	text := strings.Join(strings.Fields(string(raw)), " ")
	if runes := []rune(text); len(runes) > briefLen {
		return string(runes[:briefLen]) + "…"
	}
	return text
}
