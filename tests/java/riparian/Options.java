package riparian;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/** Command line options of the form {@code --name value}; {@code --set key=value} may be repeated. */
final class Options {
    private final Map<String, String> values = new HashMap<>();
    private final List<String> settings = new ArrayList<>();

    Options(String[] args) {
        if (args.length % 2 != 0) {
            throw new IllegalArgumentException("options come in pairs: --name value");
        }
        for (int i = 0; i < args.length; i += 2) {
            if (args[i].equals("--set")) {
                settings.add(args[i + 1]);
            } else if (args[i].startsWith("--")) {
                values.put(args[i].substring(2), args[i + 1]);
            } else {
                throw new IllegalArgumentException("not an option: " + args[i]);
            }
        }
    }

    String text(String name) {
        String value = values.get(name);
        if (value == null) {
            throw new IllegalArgumentException("--" + name + " is missing");
        }
        return value;
    }

    String text(String name, String otherwise) {
        return values.getOrDefault(name, otherwise);
    }

    long number(String name) {
        return Long.parseLong(text(name));
    }

    long number(String name, long otherwise) {
        return values.containsKey(name) ? number(name) : otherwise;
    }

    boolean flag(String name) {
        return Boolean.parseBoolean(text(name, "false"));
    }

    /** Puts every {@code --set key=value} into the given properties. */
    void applySettings(Properties properties) {
        for (String setting : settings) {
            int at = setting.indexOf('=');
            if (at < 1) {
                throw new IllegalArgumentException("--set wants key=value, got " + setting);
            }
            properties.put(setting.substring(0, at), setting.substring(at + 1));
        }
    }
}
