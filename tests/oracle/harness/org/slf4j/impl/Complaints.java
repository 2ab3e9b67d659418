package org.slf4j.impl;

import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import org.slf4j.Logger;

/** Collects log messages of Kafka's stores at WARN and ERROR, unformatted; drops all others. */
public final class Complaints {
    private static final String STORES = "org.apache.kafka.connect.storage.";
    private static final List<String> HEARD = new ArrayList<>();

    private Complaints() {
    }

    /** Level and template of each message since {@link #forget}. */
    public static List<String> heard() {
        return HEARD;
    }

    public static void forget() {
        HEARD.clear();
    }

    static Logger logger(String name) {
        boolean heard = name.startsWith(STORES);
        return (Logger) Proxy.newProxyInstance(
            Logger.class.getClassLoader(), new Class<?>[] {Logger.class},
            (proxy, method, arguments) -> answer(heard, method, arguments));
    }

    private static Object answer(boolean heard, Method method, Object[] arguments) {
        String name = method.getName();
        if (method.getReturnType() == boolean.class) {
            return heard && (name.equals("isWarnEnabled") || name.equals("isErrorEnabled"));
        }
        if (heard && (name.equals("warn") || name.equals("error"))) {
            HEARD.add(name + ": " + arguments[0]);
        }
        return null;
    }
}
