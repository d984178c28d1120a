package riparian;

import java.lang.reflect.Field;
import java.lang.reflect.ParameterizedType;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.common.record.internal.MemoryRecords;

/**
 * Prints messages with random content, as Kafka's own classes write them.
 *
 * <p>Arguments: a seed, messages per version, then names of messages. Output: {@code message NAME VERSION HEX} for
 * every version that Kafka has, and {@code error CODE NAME RETRIABLE} for every error code.
 *
 * <p>Which fields a version has, and which may be null, comes from the schema objects inside Kafka's classes.
 */
public final class RandomMessages {
    private static final String[] PLACES = {
        "org.apache.kafka.common.message.%sData",
        "org.apache.kafka.common.message.%s",
        "org.apache.kafka.coordinator.group.generated.%s",
        "org.apache.kafka.coordinator.transaction.generated.%s",
        "org.apache.kafka.common.metadata.%s",
    };

    private final Random random;

    private RandomMessages(long seed) {
        random = new Random(seed);
    }

    public static void main(String[] args) throws Exception {
        RandomMessages messages = new RandomMessages(Long.parseLong(args[0]));
        int rounds = Integer.parseInt(args[1]);
        StringBuilder out = new StringBuilder();
        for (Errors error : Errors.values()) {
            boolean retriable = error.exception() instanceof RetriableException;
            out.append("error ").append(error.code()).append(' ').append(error.name()).append(' ').append(retriable);
            out.append('\n');
        }
        for (int i = 2; i < args.length; i++) {
            messages.print(args[i], rounds, out);
        }
        System.out.print(out);
    }

    private void print(String name, int rounds, StringBuilder out) throws Exception {
        Class<?> type = find(name);
        Schema[] schemas = (Schema[]) type.getField("SCHEMAS").get(null);
        short lowest = type.getField("LOWEST_SUPPORTED_VERSION").getShort(null);
        short highest = type.getField("HIGHEST_SUPPORTED_VERSION").getShort(null);
        for (short version = lowest; version <= highest; version++) {
            for (int round = 0; round < rounds; round++) {
                Message message = (Message) struct(type, schemas[version]);
                String hex = HexFormat.of().formatHex(bytes(message, version));
                out.append("message ").append(name).append(' ').append(version).append(' ').append(hex).append('\n');
            }
        }
    }

    private static Class<?> find(String name) throws ClassNotFoundException {
        for (String place : PLACES) {
            try {
                return Class.forName(String.format(place, name));
            } catch (ClassNotFoundException e) {
                // It is in one of the other places.
            }
        }
        throw new ClassNotFoundException(name);
    }

    private static byte[] bytes(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        int size = message.size(cache, version);
        ByteBuffer buffer = ByteBuffer.allocate(size);
        message.write(new ByteBufferAccessor(buffer), cache, version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException(buffer.remaining() + " bytes of " + size + " were not written");
        }
        return buffer.array();
    }

    private Object struct(Class<?> type, Schema schema) throws Exception {
        Map<String, Type> types = new HashMap<>();
        boolean flexible = false;
        for (BoundField field : schema.fields()) {
            if (field.def.type instanceof TaggedFields tagged) {
                flexible = true;
                tagged.fields().values().forEach(inner -> types.put(plain(inner.name), inner.type));
            } else {
                types.put(plain(field.def.name), field.def.type);
            }
        }
        Object struct = type.getDeclaredConstructor().newInstance();
        int set = 0;
        for (Field field : type.getDeclaredFields()) {
            Type fieldType = types.get(plain(field.getName()));
            if (fieldType != null && !java.lang.reflect.Modifier.isStatic(field.getModifiers())) {
                field.setAccessible(true);
                field.set(struct, value(field, fieldType));
                set++;
            }
        }
        if (set != types.size()) {
            throw new IllegalStateException(type + " has " + set + " of the fields " + types.keySet());
        }
        if (flexible && random.nextInt(8) == 0) {
            List<RawTaggedField> unknown = ((Message) struct).unknownTaggedFields();
            for (int tag = 100 + random.nextInt(100); unknown.size() < 2; tag += 1 + random.nextInt(100)) {
                unknown.add(new RawTaggedField(tag, bytes()));
            }
        }
        return struct;
    }

    private Object value(Field field, Type type) throws Exception {
        if (type.isNullable() && random.nextInt(3) == 0) {
            return null;
        }
        Class<?> java = field.getType();
        if (Collection.class.isAssignableFrom(java)) {
            return collection(field, type.arrayElementType().orElseThrow());
        }
        return scalar(java, type);
    }

    private Object collection(Field field, Type element) throws Exception {
        Class<?> elementClass;
        Collection<Object> elements;
        if (field.getGenericType() instanceof ParameterizedType generic) {
            elementClass = (Class<?>) generic.getActualTypeArguments()[0];
            elements = new ArrayList<>();
        } else {
            // A hashed collection: a class of its own that names its element as the argument of its base class.
            ParameterizedType base = (ParameterizedType) field.getType().getGenericSuperclass();
            elementClass = (Class<?>) base.getActualTypeArguments()[0];
            @SuppressWarnings("unchecked")
            Collection<Object> hashed = (Collection<Object>) field.getType().getDeclaredConstructor().newInstance();
            elements = hashed;
        }
        for (int count = random.nextInt(4); count > 0; count--) {
            elements.add(scalar(elementClass, element));
        }
        return elements;
    }

    private Object scalar(Class<?> java, Type type) throws Exception {
        if (type instanceof Schema schema) {
            return struct(java, schema);
        } else if (java == boolean.class) {
            return random.nextBoolean();
        } else if (java == byte.class || java == Byte.class) {
            return (byte) number(Byte.MIN_VALUE, Byte.MAX_VALUE);
        } else if (java == short.class || java == Short.class) {
            return (short) number(Short.MIN_VALUE, Short.MAX_VALUE);
        } else if (type == Type.UINT16) {
            return (int) number(0, 65535);
        } else if (java == int.class || java == Integer.class) {
            return (int) number(Integer.MIN_VALUE, Integer.MAX_VALUE);
        } else if (java == long.class || java == Long.class) {
            return number(Long.MIN_VALUE, Long.MAX_VALUE);
        } else if (java == String.class) {
            return string();
        } else if (java == Uuid.class) {
            return random.nextInt(3) == 0 ? Uuid.ZERO_UUID : new Uuid(random.nextLong(), random.nextLong());
        } else if (java == byte[].class) {
            return bytes();
        } else if (java == ByteBuffer.class) {
            return ByteBuffer.wrap(bytes());
        } else if (java.isAssignableFrom(MemoryRecords.class)) {
            return MemoryRecords.readableRecords(ByteBuffer.wrap(bytes()));
        }
        throw new IllegalStateException("no values for " + java + " as " + type);
    }

    private long number(long min, long max) {
        switch (random.nextInt(8)) {
            case 0:
                return min;
            case 1:
                return max;
            case 2:
                return Math.max(min, -1);
            case 3:
                return 0;
            default:
                long number = random.nextLong();
                return min == Long.MIN_VALUE ? number : min + Long.remainderUnsigned(number, max - min + 1);
        }
    }

    private String string() {
        String[] alphabet = {"a", "Z", "0", ".", "-", "ä", "水", "🜄"};
        int length = random.nextInt(16) == 0 ? 120 + random.nextInt(16) : random.nextInt(6);
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < length; i++) {
            text.append(alphabet[random.nextInt(alphabet.length)]);
        }
        return text.toString();
    }

    private byte[] bytes() {
        byte[] bytes = new byte[random.nextInt(12)];
        random.nextBytes(bytes);
        return bytes;
    }

    private static String plain(String name) {
        return name.replace("_", "").toLowerCase(Locale.ROOT);
    }
}
