package riparian;

import java.util.TreeMap;

/**
 * The text that is fed to the word count: line {@code n} holds a word of its own and two that many lines share.
 * A word of its own shows a lost record even when another one was counted twice.
 */
final class Lines {
    private static final int SHARED_WORDS = 40;

    private Lines() {}

    static String line(long n) {
        return own(n) + " shared" + n % SHARED_WORDS + " Shared" + n * 7 % SHARED_WORDS;
    }

    static String own(long n) {
        return "own" + n;
    }

    /** How often each word occurs in the first {@code count} lines. */
    static TreeMap<String, Long> counts(long count) {
        TreeMap<String, Long> counts = new TreeMap<>();
        for (long n = 0; n < count; n++) {
            for (String word : line(n).toLowerCase(java.util.Locale.ROOT).split(" ")) {
                counts.merge(word, 1L, Long::sum);
            }
        }
        return counts;
    }
}
