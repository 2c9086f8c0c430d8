package browser

import "time"

// slowModel is the model of agents that answer slowly. It repeats the message word by word.
const slowModel = "openai/stub"

// pause is the slow model's pause before each word.
const pause = 120 * time.Millisecond
