package preface

// ListenFor is Listen with another patience.
var ListenFor = listen
