// Package activity detects the start and the end of speech in a stream of audio. The result depends
// only on the samples and their positions, not on how the audio was divided or when it arrived.
//
// For each frame of 10 ms, the package measures three properties in the frequency band of speech:
//
//	energy          relative to the noise floor, the minimum of the last seconds; steady noise does not exceed it, however loud
//	zero crossings  hiss, sibilants and clicks have more than a voice, mains hum has fewer
//	periodicity     whether the signal repeats at the pitch of a voice; noise does not
//
// Speech begins when most of a tenth of a second is voice and not a steady tone. It continues while
// there is voice. For a short time after voice, any sound above the noise floor also belongs to the
// speech, so that voiceless endings are complete. Speech ends after the configured silence.
//
// Music whose notes swell, fade or beat is detected as speech. Whispering is detected only if the
// threshold is 0; then every sound above the noise floor is speech.
package activity
