package riparian.peer;

import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.support.descriptor.ClassSource;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.TestPlan;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Appends one line per finished test to -Dpeer.out: class, test, result, seconds, reason. Interrupts a test past -Dpeer.test.timeout.s. */
public class RecordListener implements TestExecutionListener {
    private final String out = System.getProperty("peer.out");
    private final long limitMs = Long.getLong("peer.test.timeout.s", 170L) * 1000L;
    private final Map<String, Long> began = new ConcurrentHashMap<>();
    private final Map<String, Boolean> overdue = new ConcurrentHashMap<>();
    private TestPlan plan;

    @Override
    public void testPlanExecutionStarted(TestPlan p) { plan = p; }

    @Override
    public void testPlanExecutionFinished(TestPlan p) {
        if (out != null) write("#end\n");
    }

    @Override
    public void executionStarted(TestIdentifier id) {
        String u = id.getUniqueId();
        began.put(u, System.nanoTime());
        if (!id.isTest() || out == null) return;
        write("#start\t" + className(id) + "\t" + name(id) + "\n");
        Thread runner = Thread.currentThread();
        Thread w = new Thread(() -> {
            try {
                for (long left = limitMs; began.containsKey(u); left = 10_000L) {
                    for (long t = 0; t < left && began.containsKey(u); t += 500) Thread.sleep(500);
                    if (!began.containsKey(u)) return;
                    overdue.put(u, true);
                    runner.interrupt();
                }
            } catch (InterruptedException e) { /* ends */ }
        }, "peer-suite-watch");
        w.setDaemon(true);
        w.start();
    }

    @Override
    public void executionSkipped(TestIdentifier id, String reason) {
        if (out != null) row(id, "SKIP", 0, "disabled: " + reason);
    }

    @Override
    public void executionFinished(TestIdentifier id, TestExecutionResult r) {
        if (out == null) return;
        Long b = began.remove(id.getUniqueId());
        double s = b == null ? 0 : (System.nanoTime() - b) / 1e9;
        boolean late = overdue.remove(id.getUniqueId()) != null;
        String why = r.getThrowable().map(RecordListener::reason).orElse("");
        switch (r.getStatus()) {
            case SUCCESSFUL:
                if (id.isTest()) row(id, "PASS", s, "");
                break;
            case ABORTED:
                if (why.endsWith(External.DROP)) { External.takeNotes(); return; }
                row(id, "SKIP", s, why);
                break;
            default:
                row(id, late ? "SLOW" : "FAIL", s, late ? "stopped after " + limitMs / 1000 + " s: " + why : why);
        }
    }

    static String reason(Throwable t) {
        Throwable c = t;
        StringBuilder sb = new StringBuilder();
        for (int i = 0; c != null && i < 4; i++, c = c.getCause() == c ? null : c.getCause()) {
            if (i > 0) sb.append(" <- ");
            sb.append(c.getClass().getSimpleName()).append(": ").append(c.getMessage());
        }
        return sb.toString();
    }

    private String className(TestIdentifier id) {
        for (TestIdentifier i = id; i != null; i = plan.getParent(i).orElse(null)) {
            var src = i.getSource().orElse(null);
            if (src instanceof MethodSource) return ((MethodSource) src).getClassName();
            if (src instanceof ClassSource) return ((ClassSource) src).getClassName();
        }
        return "?";
    }

    /** method(display name of the invocation), stable between runs. */
    private String name(TestIdentifier id) {
        StringBuilder sb = new StringBuilder();
        for (TestIdentifier i = id; i != null; i = plan.getParent(i).orElse(null)) {
            var src = i.getSource().orElse(null);
            String n;
            if (src instanceof MethodSource && ((MethodSource) src).getMethodName() != null) {
                n = i.isTest() && sb.length() == 0 && isInvocation(i) ? i.getDisplayName() : ((MethodSource) src).getMethodName();
            } else if (src instanceof ClassSource || src == null) {
                break;
            } else {
                n = i.getDisplayName();
            }
            sb.insert(0, sb.length() == 0 ? n : sb.toString().startsWith(n) ? "" : n + " ");
        }
        return sb.length() == 0 ? "(class)" : sb.toString();
    }

    private boolean isInvocation(TestIdentifier i) {
        return plan.getParent(i).flatMap(TestIdentifier::getSource).map(s -> s instanceof MethodSource).orElse(false);
    }

    private void row(TestIdentifier id, String result, double s, String why) {
        String notes = External.takeNotes();
        String all = why + (notes.isEmpty() ? "" : (why.isEmpty() ? "" : " | ") + "note: " + notes);
        write(String.join("\t", flat(className(id), 300), flat(name(id), 200), result, String.format("%.1f", s), flat(all, 500)) + "\n");
    }

    static String flat(String s, int max) {
        String f = s.replaceAll("\\s+", " ").trim();
        f = f.replaceAll("@[0-9a-f]{5,8}\\b", "@obj");
        return f.length() > max ? f.substring(0, max) + "..." : f;
    }

    private synchronized void write(String line) {
        try {
            Files.writeString(Path.of(out), line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException e) {
            System.err.println("peer-suite: cannot write " + out + ": " + e);
        }
    }
}
