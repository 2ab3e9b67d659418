package oracle;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import sun.misc.Unsafe;

/** Reflection without checked exceptions. A name that a release lacks is null, not an error. */
final class Fields {
    private Fields() {
    }

    /** The class of that name, or null in releases that do not have it. */
    static Class<?> classNamed(String name) {
        try {
            return Class.forName(name);
        } catch (ClassNotFoundException missing) {
            return null;
        }
    }

    /** The field's value, or null in releases that do not have the field. */
    static Object get(Object owner, String name) {
        try {
            Field field = field(owner.getClass(), name);
            return field == null ? null : field.get(owner);
        } catch (IllegalAccessException error) {
            throw new AssertionError(error);
        }
    }

    /** Sets a field; does nothing in releases without the field. */
    static void set(Object owner, String name, Object value) {
        set(owner.getClass(), owner, name, value);
    }

    /** Sets a field that this class or a superclass declares. */
    static void set(Class<?> type, Object owner, String name, Object value) {
        try {
            Field field = field(type, name);
            if (field != null && !Modifier.isStatic(field.getModifiers())) {
                field.set(owner, value);
            }
        } catch (IllegalAccessException error) {
            throw new AssertionError(error);
        }
    }

    private static Field field(Class<?> type, String name) {
        for (Class<?> at = type; at != null; at = at.getSuperclass()) {
            for (Field field : at.getDeclaredFields()) {
                if (field.getName().equals(name)) {
                    field.setAccessible(true);
                    return field;
                }
            }
        }
        return null;
    }

    /** Calls a method without arguments; null if there is no such method. */
    static Object call(Object owner, String name) {
        try {
            Method method = owner.getClass().getMethod(name);
            method.setAccessible(true);
            return method.invoke(owner);
        } catch (NoSuchMethodException missing) {
            return null;
        } catch (ReflectiveOperationException error) {
            throw new AssertionError(error);
        }
    }

    /** An object whose constructor has not run. */
    static Object unmade(Class<?> type) {
        try {
            Field unsafe = Unsafe.class.getDeclaredField("theUnsafe");
            unsafe.setAccessible(true);
            return ((Unsafe) unsafe.get(null)).allocateInstance(type);
        } catch (ReflectiveOperationException error) {
            throw new AssertionError(error);
        }
    }

    /** Exception of a method that was called by reflection. */
    static Throwable cause(Throwable error) {
        return error instanceof InvocationTargetException ? error.getCause() : error;
    }

    /** Throws any throwable as it is. */
    @SuppressWarnings("unchecked")
    static <T extends Throwable> RuntimeException raise(Throwable error) throws T {
        throw (T) error;
    }
}
