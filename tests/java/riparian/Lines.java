package riparian;

import java.util.TreeMap;

/**
 * The text that is fed to the word count: line {@code n} holds a word of its own and some that many lines share.
 * A word of its own shows a lost record even when another one was counted twice.
 */
final class Lines {
    private static final String[] TEXT = {
        "the river keeps to its bed and the bed keeps the river",
        "reeds and willows hold the bank where the water is slow",
        "a heron waits and the water goes around it",
        "when the bank gives way another bend takes the water",
        "every drop that falls on the hill comes down to the river",
    };

    private Lines() {}

    static String line(long n) {
        return "line" + n + " " + TEXT[(int) (n % TEXT.length)];
    }

    /** How often each word occurs in the first {@code count} lines. */
    static TreeMap<String, Long> counts(long count) {
        TreeMap<String, Long> counts = new TreeMap<>();
        for (long n = 0; n < count; n++) {
            for (String word : line(n).split(" ")) {
                counts.merge(word, 1L, Long::sum);
            }
        }
        return counts;
    }
}
