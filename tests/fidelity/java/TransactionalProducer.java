import java.io.BufferedReader;
import java.io.FileReader;
import java.io.InputStreamReader;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A producer with transactions of a fixed time, as a scenario's workload describes it:
 * "TransactionalProducer PROPERTIES TOPIC PERIOD TIME ABORTS WHEN_FENCED". A record goes to each
 * partition in turn every PERIOD ms, and a transaction ends TIME ms after its first one, aborted if
 * ABORTS is True. After an error the transaction is aborted; if that fails, a new producer takes
 * over, or with WHEN_FENCED "exit" the program ends if another one has the transactional id. It
 * prints "ready" once its JVM has booted, begins with the line "go" on its input, and closes its
 * producer with the line "close" or the input's end.
 */
public class TransactionalProducer {
    private static volatile boolean closing;

    private final Properties properties;
    private final boolean exits;
    private KafkaProducer<byte[], byte[]> producer;

    private TransactionalProducer(Properties properties, boolean exits) {
        this.properties = properties;
        this.exits = exits;
    }

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileReader file = new FileReader(arguments[0])) {
            properties.load(file);
        }
        TransactionalProducer program =
            new TransactionalProducer(properties, arguments[5].equals("exit"));
        program.renew();
        CountDownLatch go = new CountDownLatch(1);
        Thread reader = new Thread(() -> obey(go));
        reader.setDaemon(true);
        reader.start();
        System.out.println("ready");
        go.await();
        try {
            program.initialize();
            program.run(arguments[1], Long.parseLong(arguments[2]), Long.parseLong(arguments[3]),
                arguments[4].equals("True"));
        } catch (Fenced ends) {
            System.err.println(ends);
        }
        program.producer.close();
    }

    private static void obey(CountDownLatch go) {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        try {
            input.readLine();
            go.countDown();
            input.readLine();
        } catch (java.io.IOException ended) {
            System.err.println(ended);
        }
        closing = true;
    }

    private void run(String topic, long period, long time, boolean aborts) throws Exception {
        int partitions = producer.partitionsFor(topic).size();
        long due = System.currentTimeMillis();
        long until = 0;
        boolean open = false;
        for (int number = 0; !closing;) {
            long now = System.currentTimeMillis();
            long wake = open ? Math.min(due, until) : due;
            if (wake > now)
                Thread.sleep(Math.min(wake - now, 100));
            now = System.currentTimeMillis();
            try {
                if (now >= due) {
                    if (!open) {
                        producer.beginTransaction();
                        until = now + time;
                        open = true;
                    }
                    byte[] value = Integer.toString(number).getBytes();
                    producer.send(new ProducerRecord<>(topic, number++ % partitions, null, value));
                    due = Math.max(due + period, System.currentTimeMillis());
                }
                if (open && now >= until) {
                    open = false;
                    end(!aborts);
                }
            } catch (KafkaException error) {
                open = false;
                recover(error);
            }
        }
    }

    private void initialize() {
        while (true) {
            try {
                producer.initTransactions();
                return;
            } catch (TimeoutException again) {
                System.err.println(again);
            } catch (KafkaException error) {
                renewAfter(error);
            }
        }
    }

    private void end(boolean commits) {
        while (true) {
            try {
                if (commits)
                    producer.commitTransaction();
                else
                    producer.abortTransaction();
                return;
            } catch (TimeoutException again) {
                System.err.println(again);
            }
        }
    }

    private void recover(KafkaException error) {
        System.err.println(error);
        try {
            end(false);
        } catch (KafkaException fatal) {
            renewAfter(fatal);
            initialize();
        }
    }

    private void renewAfter(KafkaException error) {
        System.err.println(error);
        boolean fenced = error instanceof ProducerFencedException
            || error instanceof InvalidProducerEpochException;
        if (exits && fenced)
            throw new Fenced(error);
        producer.close();
        renew();
    }

    private void renew() {
        producer = new KafkaProducer<>(properties, new ByteArraySerializer(),
            new ByteArraySerializer());
    }

    private static class Fenced extends RuntimeException {
        private static final long serialVersionUID = 1L;

        Fenced(KafkaException cause) {
            super(cause);
        }
    }
}
