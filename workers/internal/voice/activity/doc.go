// Package activity finds where speech begins and ends in audio as it comes. It is pure: what it tells depends on the
// samples and their positions alone, never on how they came in pieces or when.
//
// Of each 10 ms it measures, in the band of speech, three things:
//
//	energy          against the noise floor, the least of the last seconds: steady noise, however loud, is none
//	zero crossings  hiss, sibilants and clicks have too many for a voice, mains hum too few
//	periodicity     whether it repeats at the pitch of a voice, which noise does not
//
// Speech begins when most of a tenth of a second is voice, and that is not a steady tone. It goes on while there is voice, and
// for a while behind it whatever stands out, so that its unvoiced ends are whole; it ends when there was none of it for the
// silence that is asked for. Music whose notes swell, fade or beat is taken for speech, and whispering is not,
// unless the threshold is 0, at which whatever stands out is speech.
package activity
