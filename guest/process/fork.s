// Empty: it lets fork.go declare functions whose bodies are the runtime's.
