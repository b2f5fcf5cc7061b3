// Lets fork.go declare functions without a body.
