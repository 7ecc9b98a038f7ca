import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.HashSet;
import java.util.Optional;
import org.apache.kafka.server.common.TransactionVersion;

/**
 * Print what TransactionMetadata makes of the last epochs of a producer id, under transaction.version 2.
 *
 * <p>The class is written in Scala up to 4.1 and in Java since 4.2; 4.0 has objects for the states.
 */
public final class LastEpochs {
    private static final String[] PACKAGES = {
        "kafka.coordinator.transaction.", "org.apache.kafka.coordinator.transaction."
    };
    private static final TransactionVersion TV_2 = TransactionVersion.TV_2;
    private static final long NONE = -1L;
    private static final long NEXT = 8L;

    private static boolean fencesInMemory; // 4.0: TransactionCoordinator.endTransaction
    private static String story;
    private static Object metadata;

    public static void main(String[] arguments) throws Exception {
        fencesInMemory = arguments.length > 0 && arguments[0].equals("fences-in-memory");
        for (short epoch : new short[] {32765, 32766, 32767}) {
            open("ends", epoch);
            if (decide("COMMIT", epoch >= 32766 ? NEXT : NONE)) {
                complete();
            }
            open("aborts", epoch);
            if (decide("ABORT", epoch >= 32766 ? NEXT : NONE)) {
                complete();
            }
            open("times out", epoch);
            if (fence() && decide("ABORT", NONE)) {
                complete();
            }
            tell("it has", metadata);
        }
    }

    /** Begin a story: a transaction is open under an epoch. */
    private static void open(String name, short epoch) throws Exception {
        story = epoch + " " + name;
        Class<?> type = find("TransactionMetadata");
        Object partitions = type.getName().startsWith("org")
            ? new HashSet<>()
            : find("scala.collection.mutable.HashSet").getDeclaredConstructor().newInstance();
        metadata = type.getConstructors()[0].newInstance(
            "payments", 7L, NONE, NONE, epoch, (short) -1, 1000, state("ONGOING"), partitions, 1L, 1L, TV_2);
    }

    private static boolean fence() throws Exception {
        Object fencing = prepare("prepareFenceProducerEpoch");
        if (fencing == null) {
            return false;
        }
        boolean java = metadata.getClass().getName().startsWith("org");
        if (java) {
            call(metadata, "pendingState", Optional.empty());
        } else {
            call(metadata, "pendingState_$eq", find("scala.None$").getField("MODULE$").get(null));
        }
        if (fencesInMemory) {
            call(metadata, "producerEpoch_$eq", call(fencing, "producerEpoch"));
            call(metadata, "lastProducerEpoch_$eq", (short) -1);
        }
        return true;
    }

    private static boolean decide(String outcome, long next) throws Exception {
        Object decided = prepare("prepareAbortOrCommit", state("PREPARE_" + outcome), TV_2, next, 2L, false);
        if (decided != null) {
            call(metadata, "completeTransitionTo", decided);
        }
        return decided != null;
    }

    private static void complete() throws Exception {
        call(metadata, "completeTransitionTo", prepare("prepareComplete", 3L));
    }

    /** Print the metadata to come, or the exception; return null for that. */
    private static Object prepare(String method, Object... arguments) throws Exception {
        try {
            Object transit = call(metadata, method, arguments);
            tell(method, transit);
            return transit;
        } catch (InvocationTargetException thrown) {
            Throwable cause = thrown.getCause();
            System.out.println(story + " | " + method + " | " + cause.getClass().getSimpleName());
            return null;
        }
    }

    private static void tell(String step, Object of) throws Exception {
        System.out.println(story + " | " + step + " | producer id " + call(of, "producerId") + ", epoch "
            + call(of, "producerEpoch") + ", last epoch " + call(of, "lastProducerEpoch"));
    }

    private static Object state(String name) throws Exception {
        try {
            return find("TransactionState").getField(name).get(null);
        } catch (NoSuchFieldException before) {
            StringBuilder camel = new StringBuilder();
            for (String word : name.split("_")) {
                camel.append(word.charAt(0)).append(word.substring(1).toLowerCase());
            }
            return find(camel + "$").getField("MODULE$").get(null);
        }
    }

    private static Class<?> find(String name) throws ClassNotFoundException {
        if (name.startsWith("scala.")) {
            return Class.forName(name);
        }
        for (String each : PACKAGES) {
            try {
                return Class.forName(each + name);
            } catch (ClassNotFoundException next) {
                continue;
            }
        }
        throw new ClassNotFoundException(name);
    }

    private static Object call(Object target, String name, Object... arguments) throws Exception {
        for (Method method : target.getClass().getMethods()) {
            if (method.getName().equals(name) && method.getParameterCount() == arguments.length) {
                return method.invoke(target, arguments);
            }
        }
        throw new NoSuchMethodException(name);
    }
}
