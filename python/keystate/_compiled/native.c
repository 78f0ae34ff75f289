/* What is done for every row, compiled; plain.py has the same in Python, and says what each is.
 *
 * The methods of states and the reader of rows do only what is usual: a cell of the key at hand, a
 * value of just the right class. For all else, errors too, they call what they stand for in Python:
 * so there is one place that says what is right.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <datetime.h>
#include <math.h>
#include <structmember.h>

#ifdef Py_GIL_DISABLED
#error "native.c needs the GIL; in a Python without it, plain.py does all"
#endif

#define NO_SLOT (-1)
#define AS_METHOD(function) ((PyCFunction)(void (*)(void))(function))

static PyObject *name_value, *name_update, *name_clear, *name_get, *name_set;
static PyObject *name_map_get, *name_contains, *name_put, *name_changed;

/* ---- Cursor: the slot and the row at hand ---------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    Py_ssize_t slot;
    PyObject *row;
} Cursor;

static PyObject *
cursor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Cursor *self = (Cursor *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->slot = NO_SLOT;
        self->row = Py_NewRef(Py_None);
    }
    return (PyObject *)self;
}

static int
cursor_traverse(Cursor *self, visitproc visit, void *arg)
{
    Py_VISIT(self->row);
    return 0;
}

static int
cursor_clear(Cursor *self)
{
    Py_CLEAR(self->row);
    return 0;
}

static void
cursor_dealloc(Cursor *self)
{
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, cursor_dealloc)
    cursor_clear(self);
    Py_TYPE(self)->tp_free(self);
    Py_TRASHCAN_END
}

static PyObject *
cursor_get_slot(Cursor *self, void *closure)
{
    return self->slot == NO_SLOT ? Py_NewRef(Py_None) : PyLong_FromSsize_t(self->slot);
}

static int
cursor_set_slot(Cursor *self, PyObject *value, void *closure)
{
    if (value == NULL || value == Py_None) {
        self->slot = NO_SLOT;
        return 0;
    }
    Py_ssize_t slot = PyLong_AsSsize_t(value);
    if (slot == -1 && PyErr_Occurred()) return -1;
    if (slot < 0) {
        PyErr_SetString(PyExc_ValueError, "a slot is not negative");
        return -1;
    }
    self->slot = slot;
    return 0;
}

static PyGetSetDef cursor_getset[] = {
    {"slot", (getter)cursor_get_slot, (setter)cursor_set_slot, NULL, NULL},
    {NULL},
};

static PyMemberDef cursor_members[] = {
    {"row", T_OBJECT, offsetof(Cursor, row), 0, NULL},
    {NULL},
};

static PyTypeObject CursorType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "keystate._compiled.native.Cursor",
    .tp_basicsize = sizeof(Cursor),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_new = cursor_new,
    .tp_traverse = (traverseproc)cursor_traverse,
    .tp_clear = (inquiry)cursor_clear,
    .tp_dealloc = (destructor)cursor_dealloc,
    .tp_getset = cursor_getset,
    .tp_members = cursor_members,
};

/* ---- RowReader: a tuple as the row that will be read; RowTaker: a result as it is now ---------- */

typedef struct {
    PyObject *cls;       /* values of just this class are read as they are; NULL: none are */
    PyObject *frozen;    /* values of just this class never change; NULL: none are known to */
    long long lowest, highest;   /* of an int */
    int is_int, nullable;
    int is_single;       /* whether a float must fit into 32 bits */
} Field;

typedef struct {
    PyObject_HEAD
    PyTypeObject *cls;
    PyObject *plain;     /* the same in Python, for what is not usual */
    Py_ssize_t width;
    Field *fields;
    vectorcallfunc vectorcall;
} RowReader;

/* Whether a number is within these bounds. */
static inline int
is_within(PyObject *value, long long lowest, long long highest)
{
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    return !overflow && lowest <= number && number <= highest;
}

/* Whether a string is Unicode: half of a surrogate pair is not. */
static inline int
is_text(PyObject *value)
{
    int kind = PyUnicode_KIND(value);
    if (kind == PyUnicode_1BYTE_KIND) return 1;
    const void *data = PyUnicode_DATA(value);
    for (Py_ssize_t i = 0; i < PyUnicode_GET_LENGTH(value); i++) {
        Py_UCS4 letter = PyUnicode_READ(kind, data, i);
        if (letter >= 0xD800 && letter <= 0xDFFF) return 0;
    }
    return 1;
}

/* Whether a value of this class fits where the class is all that is usually asked. */
static inline int
is_sound(PyTypeObject *cls, PyObject *value)
{
    if (cls == &PyLong_Type) return is_within(value, LLONG_MIN, LLONG_MAX);
    return cls != &PyUnicode_Type || is_text(value);
}

/* Whether a value of a field is of just this class, and fits. */
static inline int
is_of(const Field *field, PyObject *cls, PyObject *value)
{
    if (value == Py_None) return field->nullable;
    if (field->is_int)
        return PyLong_CheckExact(value) && is_within(value, field->lowest, field->highest);
    return (PyObject *)Py_TYPE(value) == cls && is_sound(Py_TYPE(value), value);
}

/* Whether a value is read as it is. Of two times that look the same, the second is not. */
static inline int
fits(const Field *field, PyObject *value)
{
    if (!is_of(field, field->cls, value)) return 0;
    if (PyDateTime_CheckExact(value))
        return !_PyDateTime_HAS_TZINFO(value) && !PyDateTime_DATE_GET_FOLD(value);
    return !PyTime_CheckExact(value) ||
           (!_PyDateTime_HAS_TZINFO(value) && !PyDateTime_TIME_GET_FOLD(value));
}

/* Whether a value can be taken as it is: it never changes, and it will fit. */
static inline int
stays(const Field *field, PyObject *value)
{
    if (field->is_single && PyFloat_CheckExact(value)) {
        double number = PyFloat_AS_DOUBLE(value);
        return !isinf((float)number) || isinf(number);
    }
    return is_of(field, field->frozen, value);
}

/* Whether that holds for all values of a tuple. */
static inline int
all_stay(RowReader *self, PyObject *tuple)
{
    if (PyTuple_GET_SIZE(tuple) != self->width) return 0;
    for (Py_ssize_t i = 0; i < self->width; i++)
        if (!stays(&self->fields[i], PyTuple_GET_ITEM(tuple, i))) return 0;
    return 1;
}

/* A row without its values. */
static inline PyObject *
new_row(PyTypeObject *cls, Py_ssize_t width)
{
    PyObject *row = cls->tp_alloc(cls, width);
#if PY_VERSION_HEX >= 0x030E0000
    /* Tuples keep their hash, and only -1 says that there is none yet. */
    if (row != NULL) ((PyTupleObject *)row)->ob_hash = -1;
#endif
    return row;
}

/* The row of a tuple whose values need no change; NULL, without an error, for another one. */
static PyObject *
usual_row(RowReader *self, PyObject *tuple)
{
    if (PyTuple_GET_SIZE(tuple) != self->width) return NULL;
    for (Py_ssize_t i = 0; i < self->width; i++)
        if (!fits(&self->fields[i], PyTuple_GET_ITEM(tuple, i))) return NULL;
    /* Memory for the row may take a garbage collection, which may run code that drops the reader. */
    Py_INCREF(self);
    PyObject *row = new_row(self->cls, self->width);
    for (Py_ssize_t i = 0; row != NULL && i < self->width; i++)
        PyTuple_SET_ITEM(row, i, Py_NewRef(PyTuple_GET_ITEM(tuple, i)));
    Py_DECREF(self);
    return row;
}

static PyObject *
reader_call(RowReader *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    if (PyVectorcall_NARGS(nargsf) == 1 && kwnames == NULL && PyTuple_Check(args[0])) {
        PyObject *row = usual_row(self, args[0]);
        if (row != NULL || PyErr_Occurred()) return row;
    }
    return PyObject_Vectorcall(self->plain, args, nargsf, kwnames);
}

/* A new reference. */
static inline PyObject *
taken(RowReader *self, PyObject *result)
{
    int usual = PyTuple_CheckExact(result) || Py_IS_TYPE(result, self->cls)
                    ? all_stay(self, result)
                    : self->width == 1 && stays(&self->fields[0], result);
    return usual ? Py_NewRef(result) : PyObject_CallOneArg(self->plain, result);
}

static PyObject *
taker_call(RowReader *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    if (PyVectorcall_NARGS(nargsf) == 1 && kwnames == NULL) return taken(self, args[0]);
    return PyObject_Vectorcall(self->plain, args, nargsf, kwnames);
}

static int
reader_traverse(RowReader *self, visitproc visit, void *arg)
{
    Py_VISIT(self->cls);
    Py_VISIT(self->plain);
    for (Py_ssize_t i = 0; self->fields != NULL && i < self->width; i++) {
        Py_VISIT(self->fields[i].cls);
        Py_VISIT(self->fields[i].frozen);
    }
    return 0;
}

static void
reader_dealloc(RowReader *self)
{
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, reader_dealloc)
    Py_XDECREF(self->cls);
    Py_XDECREF(self->plain);
    for (Py_ssize_t i = 0; self->fields != NULL && i < self->width; i++) {
        Py_XDECREF(self->fields[i].cls);
        Py_XDECREF(self->fields[i].frozen);
    }
    PyMem_Free(self->fields);
    Py_TYPE(self)->tp_free(self);
    Py_TRASHCAN_END
}

static PyObject *
made(PyTypeObject *type, PyObject *args, vectorcallfunc call)
{
    PyTypeObject *cls;
    PyObject *plain, *fields;
    if (!PyArg_ParseTuple(args, "O!OO!", &PyType_Type, &cls, &plain, &PyTuple_Type, &fields))
        return NULL;
    if (!PyType_IsSubtype(cls, &PyTuple_Type)) {
        PyErr_SetString(PyExc_TypeError, "rows are tuples");
        return NULL;
    }
    RowReader *self = (RowReader *)type->tp_alloc(type, 0);
    if (self == NULL) return NULL;
    self->vectorcall = call;
    self->cls = (PyTypeObject *)Py_NewRef(cls);
    self->plain = Py_NewRef(plain);
    self->width = PyTuple_GET_SIZE(fields);
    self->fields = PyMem_Calloc(self->width + 1, sizeof(Field));
    if (self->fields == NULL) {
        PyErr_NoMemory();
        goto failed;
    }
    for (Py_ssize_t i = 0; i < self->width; i++) {
        Field *field = &self->fields[i];
        PyObject *class, *frozen;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(fields, i), "OOpLLp", &class, &frozen,
                              &field->nullable, &field->lowest, &field->highest,
                              &field->is_single))
            goto failed;
        field->is_int = class == (PyObject *)&PyLong_Type;
        if (class != Py_None) field->cls = Py_NewRef(class);
        if (frozen != Py_None) field->frozen = Py_NewRef(frozen);
    }
    return (PyObject *)self;
failed:
    Py_DECREF(self);
    return NULL;
}

static PyObject *
reader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    return made(type, args, (vectorcallfunc)reader_call);
}

static PyObject *
taker_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    return made(type, args, (vectorcallfunc)taker_call);
}

/* Like a tuple it never changes, so it is not cleared: what else is in a circle is. */
static PyTypeObject RowReaderType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "keystate._compiled.native.RowReader",
    .tp_basicsize = sizeof(RowReader),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = reader_new,
    .tp_traverse = (traverseproc)reader_traverse,
    .tp_dealloc = (destructor)reader_dealloc,
    .tp_vectorcall_offset = offsetof(RowReader, vectorcall),
    .tp_call = PyVectorcall_Call,
};

static PyTypeObject RowTakerType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "keystate._compiled.native.RowTaker",
    .tp_basicsize = sizeof(RowReader),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = taker_new,
    .tp_traverse = (traverseproc)reader_traverse,
    .tp_dealloc = (destructor)reader_dealloc,
    .tp_vectorcall_offset = offsetof(RowReader, vectorcall),
    .tp_call = PyVectorcall_Call,
};

/* ---- Cells, ValueCells: what is first in the classes of states that hold a value a key ----------- */

typedef struct {
    PyObject_HEAD
    PyObject *cells;     /* list */
    PyObject *dirty;     /* bytearray */
    PyObject *cursor;
    PyObject *plain;     /* class */
    /* Of values only. */
    PyObject *as_row;    /* makes a row of a tuple */
    PyObject *standard;  /* what a key without a value has */
    char is_shared;      /* whether all keys may have the same object of it */
    char is_mutable;     /* whether a value can change in place: then a copy is handed out */
    /* Of maps only. */
    PyObject *key_class;
    PyObject *whole;     /* the class of cells that have the whole map */
} Cells;

static PyTypeObject CellsType, ValueCellsType, MapCellsType;

static int
cells_traverse(Cells *self, visitproc visit, void *arg)
{
    Py_VISIT(self->cells);
    Py_VISIT(self->dirty);
    Py_VISIT(self->cursor);
    Py_VISIT(self->plain);
    Py_VISIT(self->as_row);
    Py_VISIT(self->standard);
    Py_VISIT(self->key_class);
    Py_VISIT(self->whole);
    return 0;
}

static int
cells_clear_refs(Cells *self)
{
    Py_CLEAR(self->cells);
    Py_CLEAR(self->dirty);
    Py_CLEAR(self->cursor);
    Py_CLEAR(self->plain);
    Py_CLEAR(self->as_row);
    Py_CLEAR(self->standard);
    Py_CLEAR(self->key_class);
    Py_CLEAR(self->whole);
    return 0;
}

static void
cells_dealloc(Cells *self)
{
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, cells_dealloc)
    cells_clear_refs(self);
    Py_TYPE(self)->tp_free(self);
    Py_TRASHCAN_END
}

static PyMemberDef state_members[] = {
    {"_cells", T_OBJECT_EX, offsetof(Cells, cells), 0, NULL},
    {"_dirty", T_OBJECT_EX, offsetof(Cells, dirty), 0, NULL},
    {"_cursor", T_OBJECT_EX, offsetof(Cells, cursor), 0, NULL},
    {"_plain", T_OBJECT, offsetof(Cells, plain), 0, NULL},
    {NULL},
};

/* The base of all, which has their members. */
static PyTypeObject StateCellsType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "keystate._compiled.native.StateCells",
    .tp_basicsize = sizeof(Cells),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_new = PyType_GenericNew,
    .tp_traverse = (traverseproc)cells_traverse,
    .tp_clear = (inquiry)cells_clear_refs,
    .tp_dealloc = (destructor)cells_dealloc,
    .tp_members = state_members,
};

/* The slot at hand; NO_SLOT if there is none, or if anything is not as usual. */
static inline Py_ssize_t
cells_slot(Cells *self)
{
    PyObject *cursor = self->cursor;
    if (cursor == NULL || !PyObject_TypeCheck(cursor, &CursorType)) return NO_SLOT;
    Py_ssize_t slot = ((Cursor *)cursor)->slot;
    if (slot == NO_SLOT || self->cells == NULL || !PyList_CheckExact(self->cells) ||
        slot >= PyList_GET_SIZE(self->cells))
        return NO_SLOT;
    return slot;
}

/* Whether the key at hand is noted as changed now. */
static inline int
is_dirtied(Cells *self)
{
    Py_ssize_t slot = cells_slot(self);
    if (slot == NO_SLOT || self->dirty == NULL || !PyByteArray_CheckExact(self->dirty) ||
        slot >= PyByteArray_GET_SIZE(self->dirty))
        return 0;
    PyByteArray_AS_STRING(self->dirty)[slot] = 1;
    return 1;
}

/* Whether the value is stored now. */
static inline int
is_stored(Cells *self, PyObject *value)
{
    if (!is_dirtied(self)) return 0;
    Py_ssize_t slot = cells_slot(self);
    PyObject *old = PyList_GET_ITEM(self->cells, slot);
    PyList_SET_ITEM(self->cells, slot, Py_NewRef(value));
    Py_DECREF(old);
    return 1;
}

/* Whether a value is stored as it is. */
static inline int
is_plain(Cells *self, PyObject *value)
{
    return (PyObject *)Py_TYPE(value) == self->plain && is_sound(Py_TYPE(value), value);
}

/* Calls the method of that name that comes after those of a type, with the same arguments. */
static PyObject *
in_python(Cells *self, PyTypeObject *type, PyObject *name, PyObject *const *args, Py_ssize_t count,
          PyObject *keywords)
{
    PyObject *rest = PyObject_CallFunctionObjArgs((PyObject *)&PySuper_Type, type, self, NULL);
    PyObject *method = rest == NULL ? NULL : PyObject_GetAttr(rest, name);
    PyObject *result = method == NULL ? NULL : PyObject_Vectorcall(method, args, count, keywords);
    Py_XDECREF(method);
    Py_XDECREF(rest);
    return result;
}

static PyObject *
cells_get(Cells *self, PyObject *noargs)
{
    Py_ssize_t slot = cells_slot(self);
    if (slot != NO_SLOT) return Py_NewRef(PyList_GET_ITEM(self->cells, slot));
    return in_python(self, &CellsType, name_get, NULL, 0, NULL);
}

static PyObject *
cells_set(Cells *self, PyObject *value)
{
    if (is_plain(self, value) && is_stored(self, value)) Py_RETURN_NONE;
    return in_python(self, &CellsType, name_set, &value, 1, NULL);
}

static PyObject *
cells_clear(Cells *self, PyObject *noargs)
{
    if (is_stored(self, Py_None)) Py_RETURN_NONE;
    return in_python(self, &CellsType, name_clear, NULL, 0, NULL);
}

static PyObject *
cells_value(Cells *self, PyObject *noargs)
{
    Py_ssize_t slot = cells_slot(self);
    if (slot != NO_SLOT) {
        PyObject *value = PyList_GET_ITEM(self->cells, slot);
        if (value == Py_None) {
            if (self->is_shared && self->standard != NULL) return Py_NewRef(self->standard);
        }
        else if (!self->is_mutable) return Py_NewRef(value);
    }
    return in_python(self, &ValueCellsType, name_value, NULL, 0, NULL);
}

static PyObject *
cells_update(Cells *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    if (count == 1 && keywords == NULL) {
        PyObject *value = args[0], *reader = self->as_row, *row = NULL;
        if (is_plain(self, value)) row = Py_NewRef(value);
        else if (PyTuple_CheckExact(value) && reader != NULL && Py_IS_TYPE(reader, &RowReaderType))
            row = usual_row((RowReader *)reader, value);
        int stored = row != NULL && is_stored(self, row);
        Py_XDECREF(row);
        if (stored) Py_RETURN_NONE;
        if (PyErr_Occurred()) return NULL;
    }
    return in_python(self, &ValueCellsType, name_update, args, count, keywords);
}

static PyMethodDef value_methods[] = {
    {"value", (PyCFunction)cells_value, METH_NOARGS, NULL},
    {"update", AS_METHOD(cells_update), METH_FASTCALL | METH_KEYWORDS, NULL},
    {NULL},
};

static PyMethodDef cells_methods[] = {
    {"clear", (PyCFunction)cells_clear, METH_NOARGS, NULL},
    {"_get", (PyCFunction)cells_get, METH_NOARGS, NULL},
    {"_set", (PyCFunction)cells_set, METH_O, NULL},
    {NULL},
};

static PyMemberDef value_members[] = {
    {"_tuple_as_read", T_OBJECT_EX, offsetof(Cells, as_row), 0, NULL},
    {"_default", T_OBJECT_EX, offsetof(Cells, standard), 0, NULL},
    {"_shared_default", T_BOOL, offsetof(Cells, is_shared), 0, NULL},
    {"_mutable", T_BOOL, offsetof(Cells, is_mutable), 0, NULL},
    {NULL},
};

static PyTypeObject CellsType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "keystate._compiled.native.Cells",
    .tp_base = &StateCellsType,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_methods = cells_methods,
};

static PyTypeObject ValueCellsType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "keystate._compiled.native.ValueCells",
    .tp_base = &CellsType,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_methods = value_methods,
    .tp_members = value_members,
};

/* ---- MapCells: what is first in the classes of states that hold a map a key -------------------- */

/* The map of the key at hand if it is whole and may have the key that is the first of so many
 * arguments, else NULL. A new reference: keys of the user's making compare in Python. */
static inline PyObject *
map_cell(Cells *self, PyObject *const *args, Py_ssize_t count, Py_ssize_t wanted,
         PyObject *keywords)
{
    Py_ssize_t slot = cells_slot(self);
    if (slot == NO_SLOT || count != wanted || keywords != NULL ||
        (PyObject *)Py_TYPE(args[0]) != self->key_class)
        return NULL;
    PyObject *cell = PyList_GET_ITEM(self->cells, slot);
    return (PyObject *)Py_TYPE(cell) == self->whole && PyDict_Check(cell) ? Py_NewRef(cell) : NULL;
}

static PyObject *
map_get(Cells *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    PyObject *cell = map_cell(self, args, count, 1, keywords);
    if (cell == NULL) return in_python(self, &MapCellsType, name_map_get, args, count, keywords);
    PyObject *value = PyDict_GetItemWithError(cell, args[0]);
    if (value == NULL && !PyErr_Occurred()) value = Py_None;
    Py_XINCREF(value);
    Py_DECREF(cell);
    return value;
}

static PyObject *
map_contains(Cells *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    PyObject *cell = map_cell(self, args, count, 1, keywords);
    if (cell == NULL) return in_python(self, &MapCellsType, name_contains, args, count, keywords);
    int there = PyDict_Contains(cell, args[0]);
    Py_DECREF(cell);
    return there < 0 ? NULL : PyBool_FromLong(there);
}

static PyObject *
map_put(Cells *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    PyObject *cell = map_cell(self, args, count, 2, keywords);
    if (cell == NULL || !is_plain(self, args[1]) || !is_dirtied(self)) {
        Py_XDECREF(cell);
        return in_python(self, &MapCellsType, name_put, args, count, keywords);
    }
    PyObject *changed = PyObject_GetAttr(cell, name_changed);
    int failed = changed == NULL || PyDict_SetItem(cell, args[0], args[1]) < 0 ||
                 PySet_Add(changed, args[0]) < 0;
    Py_XDECREF(changed);
    Py_DECREF(cell);
    return failed ? NULL : Py_NewRef(Py_None);
}

static PyMethodDef map_methods[] = {
    {"get", AS_METHOD(map_get), METH_FASTCALL | METH_KEYWORDS, NULL},
    {"contains", AS_METHOD(map_contains), METH_FASTCALL | METH_KEYWORDS, NULL},
    {"put", AS_METHOD(map_put), METH_FASTCALL | METH_KEYWORDS, NULL},
    {NULL},
};

static PyMemberDef map_members[] = {
    {"_key_class", T_OBJECT, offsetof(Cells, key_class), 0, NULL},
    {"_whole", T_OBJECT_EX, offsetof(Cells, whole), 0, NULL},
    {NULL},
};

static PyTypeObject MapCellsType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "keystate._compiled.native.MapCells",
    .tp_base = &StateCellsType,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_methods = map_methods,
    .tp_members = map_members,
};

/* ---- Marks: how things were before a row ------------------------------------------------------- */

typedef struct {
    PyObject *values;    /* list: the value of each slot */
    PyObject *dirty;     /* bytearray: whether it changed */
    PyObject *old;       /* of the slot at hand, before the row */
    char was;
} Marked;

typedef struct {
    PyObject_HEAD
    PyObject *slots;     /* iterator */
    PyObject *results;   /* list */
    PyObject *journal;   /* list */
    Marked *states;
    Py_ssize_t size, slot, length, count;
} Marks;

static int
marks_traverse(Marks *self, visitproc visit, void *arg)
{
    Py_VISIT(self->slots);
    Py_VISIT(self->results);
    Py_VISIT(self->journal);
    for (Py_ssize_t i = 0; i < self->size; i++) {
        Py_VISIT(self->states[i].values);
        Py_VISIT(self->states[i].dirty);
        Py_VISIT(self->states[i].old);
    }
    return 0;
}

static int
marks_clear(Marks *self)
{
    Py_CLEAR(self->slots);
    Py_CLEAR(self->results);
    Py_CLEAR(self->journal);
    for (Py_ssize_t i = 0; i < self->size; i++) {
        Py_CLEAR(self->states[i].values);
        Py_CLEAR(self->states[i].dirty);
        Py_CLEAR(self->states[i].old);
    }
    return 0;
}

static void
marks_dealloc(Marks *self)
{
    PyObject_GC_UnTrack(self);
    marks_clear(self);
    PyMem_Free(self->states);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *
marks_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *slots, *cells, *results, *journal;
    if (!PyArg_ParseTuple(args, "OOO!O!", &slots, &cells, &PyList_Type, &results, &PyList_Type,
                          &journal))
        return NULL;
    PyObject *pairs = PySequence_Tuple(cells);
    if (pairs == NULL) return NULL;
    Marks *self = (Marks *)type->tp_alloc(type, 0);
    if (self == NULL) goto failed;
    self->results = Py_NewRef(results);
    self->journal = Py_NewRef(journal);
    self->slots = PyObject_GetIter(slots);
    if (self->slots == NULL) goto failed;
    self->states = PyMem_Calloc(PyTuple_GET_SIZE(pairs) + 1, sizeof(Marked));
    if (self->states == NULL) {
        PyErr_NoMemory();
        goto failed;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(pairs); i++) {
        PyObject *values, *dirty;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(pairs, i), "O!O!", &PyList_Type, &values,
                              &PyByteArray_Type, &dirty))
            goto failed;
        self->states[i].values = Py_NewRef(values);
        self->states[i].dirty = Py_NewRef(dirty);
        self->size = i + 1;
    }
    Py_DECREF(pairs);
    return (PyObject *)self;
failed:
    Py_XDECREF(self);
    Py_DECREF(pairs);
    return NULL;
}

/* Whether a state has the slot at hand. */
static inline int
has_slot(const Marked *state, Py_ssize_t slot)
{
    return slot >= 0 && state->values != NULL && state->dirty != NULL &&
           slot < PyList_GET_SIZE(state->values) && slot < PyByteArray_GET_SIZE(state->dirty);
}

static int
mark(Marks *self, PyObject *slot)
{
    if (self->results == NULL || self->journal == NULL) return -1;
    self->count++;
    self->length = PyList_GET_SIZE(self->results);
    if (PyList_GET_SIZE(self->journal) > 0 &&
        PyList_SetSlice(self->journal, 0, PyList_GET_SIZE(self->journal), NULL) < 0)
        return -1;
    if (self->size == 0) return 0;
    self->slot = PyLong_AsSsize_t(slot);
    if (self->slot == -1 && PyErr_Occurred()) return -1;
    for (Py_ssize_t i = 0; i < self->size; i++) {
        Marked *state = &self->states[i];
        if (!has_slot(state, self->slot)) {
            PyErr_SetString(PyExc_IndexError, "a state does not have the slot");
            return -1;
        }
        state->was = PyByteArray_AS_STRING(state->dirty)[self->slot];
        Py_XSETREF(state->old, Py_NewRef(PyList_GET_ITEM(state->values, self->slot)));
    }
    return 0;
}

static PyObject *
marks_next(Marks *self)
{
    PyObject *slot = self->slots == NULL ? NULL : PyIter_Next(self->slots);
    if (slot != NULL && mark(self, slot) < 0) Py_CLEAR(slot);
    return slot;
}

static PyObject *
marks_mark(Marks *self, PyObject *slot)
{
    return mark(self, slot) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *
marks_undo(Marks *self, PyObject *noargs)
{
    if (self->results == NULL ||
        PyList_SetSlice(self->results, self->length, PyList_GET_SIZE(self->results), NULL) < 0)
        return NULL;
    for (Py_ssize_t i = 0; i < self->size; i++) {
        Marked *state = &self->states[i];
        if (state->old == NULL || !has_slot(state, self->slot)) continue;
        PyByteArray_AS_STRING(state->dirty)[self->slot] = state->was;
        if (PyList_SetItem(state->values, self->slot, Py_NewRef(state->old)) < 0) return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef marks_methods[] = {
    {"mark", (PyCFunction)marks_mark, METH_O, NULL},
    {"undo", (PyCFunction)marks_undo, METH_NOARGS, NULL},
    {NULL},
};

static PyMemberDef marks_members[] = {
    {"count", T_PYSSIZET, offsetof(Marks, count), READONLY, NULL},
    {NULL},
};

static PyTypeObject MarksType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "keystate._compiled.native.Marks",
    .tp_basicsize = sizeof(Marks),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = marks_new,
    .tp_traverse = (traverseproc)marks_traverse,
    .tp_clear = (inquiry)marks_clear,
    .tp_dealloc = (destructor)marks_dealloc,
    .tp_iter = PyObject_SelfIter,
    .tp_iternext = (iternextfunc)marks_next,
    .tp_methods = marks_methods,
    .tp_members = marks_members,
};

/* ---- functions -------------------------------------------------------------------------------- */

static PyObject *
make_rows(PyObject *module, PyObject *args)
{
    PyTypeObject *cls;
    PyObject *columns;
    if (!PyArg_ParseTuple(args, "O!O!", &PyType_Type, &cls, &PyList_Type, &columns)) return NULL;
    if (!PyType_IsSubtype(cls, &PyTuple_Type)) {
        PyErr_SetString(PyExc_TypeError, "rows are tuples");
        return NULL;
    }
    Py_ssize_t width = PyList_GET_SIZE(columns), size = 0;
    for (Py_ssize_t i = 0; i < width; i++) {
        PyObject *column = PyList_GET_ITEM(columns, i);
        Py_ssize_t length = PyList_CheckExact(column) ? PyList_GET_SIZE(column) : -1;
        if (i == 0) size = length;
        if (length < 0 || length != size) {
            PyErr_SetString(PyExc_ValueError, "columns must be lists of the same length");
            return NULL;
        }
    }
    PyObject *made = PyList_New(size);
    if (made == NULL) return NULL;
    for (Py_ssize_t j = 0; j < size; j++) {
        PyObject *row = new_row(cls, width);
        if (row == NULL) {
            Py_DECREF(made);
            return NULL;
        }
        PyList_SET_ITEM(made, j, row);
        for (Py_ssize_t i = 0; i < width; i++) {
            /* Memory for a row may take a garbage collection, and that run code which changes them. */
            PyObject *column = i < PyList_GET_SIZE(columns) ? PyList_GET_ITEM(columns, i) : NULL;
            if (column == NULL || !PyList_CheckExact(column) || j >= PyList_GET_SIZE(column)) {
                PyErr_SetString(PyExc_ValueError, "columns must not change meanwhile");
                Py_DECREF(made);
                return NULL;
            }
            PyTuple_SET_ITEM(row, i, Py_NewRef(PyList_GET_ITEM(column, j)));
        }
    }
    return made;
}

/* Adds a result as it is now. */
static inline int
add_one(PyObject *result, PyObject *take, PyObject *results)
{
    PyObject *now = Py_IS_TYPE(take, &RowTakerType) ? taken((RowReader *)take, result)
                                                    : PyObject_CallOneArg(take, result);
    int failed = now == NULL ? -1 : PyList_Append(results, now);
    Py_XDECREF(now);
    return failed;
}

/* Calls note_yield of plain.py for the error that is raised now. What fails there is dropped. */
static void
note_yield(PyObject *iterator)
{
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    PyObject *plain = PyImport_ImportModule("keystate._compiled.plain");
    PyObject *noted =
        plain == NULL ? NULL : PyObject_CallMethod(plain, "note_yield", "OO", error, iterator);
    Py_XDECREF(plain);
    Py_XDECREF(noted);
    PyErr_Clear();
    PyErr_Restore(type, error, traceback);
}

/* Adds what a call returned to the results. */
static int
add(PyObject *result, PyObject *take, PyObject *results)
{
    if (result == Py_None) return 0;
    if (!PyList_CheckExact(result) && !PyIter_Check(result)) return add_one(result, take, results);
    PyObject *iterator = PyObject_GetIter(result), *each;
    int failed = iterator == NULL;
    while (!failed && (each = PyIter_Next(iterator)) != NULL) {
        failed = add_one(each, take, results);
        if (failed) note_yield(iterator);
        Py_DECREF(each);
    }
    Py_XDECREF(iterator);
    return failed || PyErr_Occurred() ? -1 : 0;
}

static PyObject *
collect(PyObject *module, PyObject *args)
{
    PyObject *result, *take, *results;
    if (!PyArg_ParseTuple(args, "OOO!", &result, &take, &PyList_Type, &results)) return NULL;
    return add(result, take, results) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *
call_each(PyObject *args, int arguments)
{
    PyObject *call, *slots, *given, *take, *results;
    Cursor *context;
    if (!PyArg_ParseTuple(args, "OO!OOOO!", &call, &CursorType, &context, &slots, &given, &take,
                          &PyList_Type, &results))
        return NULL;
    PyObject *each_slot = PyObject_GetIter(slots);
    PyObject *each_row = each_slot == NULL ? NULL : PyObject_GetIter(given);
    PyObject *slot, *row;
    int failed = each_row == NULL;
    while (!failed && (slot = PyIter_Next(each_slot)) != NULL) {
        failed = cursor_set_slot(context, slot, NULL);
        Py_DECREF(slot);
        if (failed || (row = PyIter_Next(each_row)) == NULL) break;
        PyObject *stack[] = {NULL, row, (PyObject *)context};
        Py_XSETREF(context->row, Py_NewRef(row));
        PyObject *result =
            PyObject_Vectorcall(call, stack + 1, arguments | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
        failed = result == NULL ? -1 : add(result, take, results);
        Py_XDECREF(result);
        Py_DECREF(row);
    }
    Py_XDECREF(each_slot);
    Py_XDECREF(each_row);
    if (failed || PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static PyObject *
call_with_context(PyObject *module, PyObject *args)
{
    return call_each(args, 2);
}

static PyObject *
call_with_row(PyObject *module, PyObject *args)
{
    return call_each(args, 1);
}

static PyMethodDef functions[] = {
    {"make_rows", make_rows, METH_VARARGS, NULL},
    {"collect", collect, METH_VARARGS, NULL},
    {"call_with_context", call_with_context, METH_VARARGS, NULL},
    {"call_with_row", call_with_row, METH_VARARGS, NULL},
    {NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "keystate._compiled.native",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC
PyInit_native(void)
{
    PyDateTime_IMPORT;
    name_value = PyUnicode_InternFromString("value");
    name_update = PyUnicode_InternFromString("update");
    name_clear = PyUnicode_InternFromString("clear");
    name_get = PyUnicode_InternFromString("_get");
    name_set = PyUnicode_InternFromString("_set");
    name_map_get = PyUnicode_InternFromString("get");
    name_contains = PyUnicode_InternFromString("contains");
    name_put = PyUnicode_InternFromString("put");
    name_changed = PyUnicode_InternFromString("changed");
    if (PyErr_Occurred()) return NULL;
    PyObject *made = PyModule_Create(&module);
    if (made == NULL || PyModule_AddType(made, &CursorType) < 0 ||
        PyModule_AddType(made, &CellsType) < 0 ||
        PyModule_AddType(made, &ValueCellsType) < 0 ||
        PyModule_AddType(made, &MapCellsType) < 0 || PyModule_AddType(made, &MarksType) < 0 ||
        PyModule_AddType(made, &RowReaderType) < 0 || PyModule_AddType(made, &RowTakerType) < 0) {
        Py_XDECREF(made);
        return NULL;
    }
    return made;
}
