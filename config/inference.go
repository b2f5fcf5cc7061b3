package config

import (
	"net/url"
	"regexp"
	"strings"
)

// Inference is which model answers agents, and how much of it each may have.
type Inference struct {
	// BaseURL is an endpoint that is compatible with OpenAI's; empty is none.
	BaseURL InferenceURL
	// Model answers whoever names none; empty is none.
	Model ModelName
	// RequestsPerDay and TokensPerDay are what one agent may have in 24 hours; 0
	// is no limit.
	RequestsPerDay, TokensPerDay int
}

// The bounds of an agent's day, and what it has where nobody chose. The usual
// are more than an agent that works all day takes, and less than a loop does.
const (
	maxRequestsPerDay   = 86_400 // one a second
	maxTokensPerDay     = 1_000_000_000
	usualRequestsPerDay = 5_000
	usualTokensPerDay   = 5_000_000
)

func inferenceDefaults() Inference {
	return Inference{RequestsPerDay: usualRequestsPerDay, TokensPerDay: usualTokensPerDay}
}

func inferenceFields() table[Settings] {
	return table[Settings]{
		live(textField("inference.baseURL", "the endpoint that answers requests for inference, compatible with OpenAI's API", inferenceURLAllowed, parseInferenceURL, func(s *Settings) *InferenceURL { return &s.Inference.BaseURL })),
		live(textField("inference.model", "the model for requests that name none", modelAllowed+`, or ""`, parseUsualModel, func(s *Settings) *ModelName { return &s.Inference.Model })),
		live(intField("inference.requestsPerDay", "requests for inference that an agent may make in 24 hours; 0 is no limit", 0, maxRequestsPerDay, func(s *Settings) *int { return &s.Inference.RequestsPerDay })),
		live(intField("inference.tokensPerDay", "tokens that an agent may use in 24 hours; 0 is no limit", 0, maxTokensPerDay, func(s *Settings) *int { return &s.Inference.TokensPerDay })),
	}
}

// InferenceURL is where an endpoint for inference is: "http://127.0.0.1:1337/v1".
type InferenceURL string

const (
	inferenceURLAllowed = `an http or https address ("http://127.0.0.1:1337/v1"), or "" for none`
	maxURL              = 512 // no address is longer
)

// parseInferenceURL reads where an endpoint is. What is secret about it is no
// part of its address: that is shown.
func parseInferenceURL(text string) (InferenceURL, error) {
	if text == "" {
		return "", nil
	}
	u, err := url.Parse(text)
	if err != nil || len(text) > maxURL || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.User != nil || strings.ContainsAny(text, "?#") {
		return "", notAllowed("read address", text, inferenceURLAllowed)
	}
	return InferenceURL(strings.TrimRight(text, "/")), nil
}

// ModelName is what an endpoint calls a model: "llama3.2:3b", "qwen/qwen3-8b".
type ModelName string

const modelAllowed = "1 to 200 letters, digits, dots, dashes, underscores, colons, slashes, @ and +, and starts with a letter or digit"

// maxModel is more than any endpoint's longest name has.
const maxModel = 200

var modelText = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$`)

// ParseModelName reads what a model is called.
func ParseModelName(text string) (ModelName, error) {
	if len(text) > maxModel || !modelText.MatchString(text) {
		return "", notAllowed("read model", text, modelAllowed)
	}
	return ModelName(text), nil
}

// parseUsualModel reads the model of whoever names none, or none.
func parseUsualModel(text string) (ModelName, error) {
	if text == "" {
		return "", nil
	}
	return ParseModelName(text)
}
