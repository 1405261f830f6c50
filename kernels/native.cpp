// Calls of kernels as they were planned: what schedgen.kernels.native builds and loads.
//
// An operator of torch, called with arguments of a signature that it has a plan for, allocates its
// results, fills in addresses and calls the host functions of its kernels, or copies; nothing else
// happens on the way. For any other signature it returns None (false, if it has no results), and
// the caller computes in Python, where arguments are checked and plans are made
// (schedgen.kernels.plans).
//
// It is written against the C interface of libtorch that is stable over versions, whose few
// functions are declared here, so that neither torch's headers nor those of Python are needed.

#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

using Tensor = void *;  // AtenTensorHandle
using Value = uint64_t;  // StableIValue
using Status = int32_t;  // AOTITorchError, 0 for success

extern "C" {
Status aoti_torch_get_data_ptr(Tensor, void **);
Status aoti_torch_get_dim(Tensor, int64_t *);
Status aoti_torch_get_sizes(Tensor, int64_t **);
Status aoti_torch_get_strides(Tensor, int64_t **);
Status aoti_torch_get_dtype(Tensor, int32_t *);
Status aoti_torch_get_device_type(Tensor, int32_t *);
Status aoti_torch_get_device_index(Tensor, int32_t *);
size_t aoti_torch_dtype_element_size(int32_t);
Status aoti_torch_empty_strided(int64_t, const int64_t *, const int64_t *, int32_t, int32_t,
                                int32_t, Tensor *);
Status aoti_torch_create_tensor_from_blob(void *, int64_t, const int64_t *, const int64_t *, int64_t,
                                          int32_t, int32_t, int32_t, Tensor *);
Status aoti_torch_copy_(Tensor, Tensor, int32_t);
Status aoti_torch_zero_(Tensor);
Status aoti_torch_delete_tensor_object(Tensor);
Status aoti_torch_library_init_impl(const char *, const char *, const char *, uint32_t, void **);
Status aoti_torch_library_impl(void *, const char *, void (*)(Value *, uint64_t, uint64_t));
int32_t aoti_torch_device_type_cuda();
}

namespace {

constexpr int kOperators = 256;
constexpr size_t kMostPlans = 4096;  // of an operator; then all are dropped and made again
constexpr uintptr_t kAlignment = 16;
constexpr int kMostPlaces = 64;
constexpr int64_t kCounter = -1;

// Of libtorch_cuda, where that is.
Status (*current_stream)(int32_t, void **) = nullptr;
Status (*current_device)(int32_t *) = nullptr;
int (*stream_is_capturing)(void *, int *) = nullptr;  // of the CUDA runtime; 0 for success

struct Allocation {
  std::vector<int64_t> sizes, strides;
  int32_t dtype;
  int64_t result;  // which result it is, or -1
};

struct Address {
  int64_t offset;  // in the frame
  int64_t source;  // an argument, or behind those an allocation; or kCounter
  int64_t bytes;   // from where that begins
};

struct Scalar {
  int64_t offset, argument;
  double factor;
  bool whole;  // an integer of 32 bits, which has no factor
};

// The call of a host function; see schedgen.kernels.launcher._Frame for what a frame is.
struct Launch {
  Status (*run)(void *, void **, size_t);
  void *function;
  int64_t stream;  // offset of the stream
  std::vector<int64_t> places;
  std::vector<Address> addresses;
  std::vector<Scalar> scalars;
  std::vector<int64_t> frame;

  bool counted() const {
    for (const Address &one : addresses) {
      if (one.source == kCounter) return true;
    }
    return false;
  }
};

// A part of an argument or an allocation, as a tensor.
struct View {
  int64_t source, bytes;
  int32_t dtype;
  std::vector<int64_t> sizes, strides;
};

struct Copy {
  View to, from;
};

enum class Kind : int64_t { kLaunch, kCopy, kZero };  // as schedgen.kernels.plans.encoded has them

// A launch, a copy, or zeros for what a copy would be to.
struct Step {
  Kind kind;
  Launch launch;
  Copy copy;
};

struct Plan {
  std::vector<Allocation> allocations;
  std::vector<Step> steps;
};

struct Operator {
  std::string types;  // T tensor, W one that is overwritten, O one or None, F float, B bool, I int,
                      // N an int of 32 bits that each call has anew
  int64_t results = 0;
  std::mutex lock;
  std::unordered_map<std::string, std::shared_ptr<const Plan>> plans;
};

Operator operators[kOperators];

// Where kernels that claim their tiles count, by device and stream (schedgen.kernels.counters).
std::map<std::pair<int64_t, void *>, void *> counters;
std::mutex counters_lock;

// The counter of a stream; none while a graph is captured: each launch needs its own there.
void *counter_of(int64_t device, void *stream) {
  int capturing = 0;
  if (current_stream &&
      (!stream_is_capturing || stream_is_capturing(stream, &capturing) || capturing)) {
    return nullptr;
  }
  std::lock_guard<std::mutex> guard(counters_lock);
  auto found = counters.find({device, stream});
  return found == counters.end() ? nullptr : found->second;
}

// The signature for which this thread has last found no plan.
thread_local std::string missed;

struct Argument {
  Tensor tensor = nullptr;
  char *data = nullptr;
  int64_t *sizes = nullptr, *strides = nullptr, dimensions = 0;
  int32_t dtype = 0, device_type = 0, device = 0;
  double number = 0;
};

// Arguments of a call, which they own.
class Call {
 public:
  Call(const Operator &op, Value *stack) : op_(op), count_(op.types.size()), arguments_(count_) {
    for (size_t n = 0; n < count_; n++) take(op.types[n], stack[n], arguments_[n]);
  }

  ~Call() {
    for (Argument &one : arguments_) {
      if (one.tensor) aoti_torch_delete_tensor_object(one.tensor);
    }
  }

  // What plans depend on. False if there can be none.
  bool signature(std::string &key) const {
    const Argument *first = nullptr;
    for (size_t n = 0; n < count_; n++) {
      const Argument &one = arguments_[n];
      switch (op_.types[n]) {
        case 'F':
        case 'U':
          if (!(one.number - one.number == 0)) return false;  // infinite or no number
          put(key, one.number > 0 ? 1 : one.number < 0 ? -1 : 0);
          if (op_.types[n] == 'U') put(key, one.number == 1);
          continue;
        case 'N':  // no plan is for others, of which the host function says what is wrong
          put(key, one.number >= INT32_MIN && one.number <= INT32_MAX);
          continue;
        case 'B':
        case 'I':
          put(key, static_cast<int64_t>(one.number));
          continue;
      }
      if (!one.tensor) {
        put(key, -1);
        continue;
      }
      if (!first) first = &one;
      if (one.device != first->device || one.device_type != first->device_type) return false;
      if (reinterpret_cast<uintptr_t>(one.data) % kAlignment) return false;
      put(key, one.dimensions);
      put(key, one.dtype);
      put(key, same_start(n));
      key.append(reinterpret_cast<char *>(one.sizes), one.dimensions * sizeof(int64_t));
      key.append(reinterpret_cast<char *>(one.strides), one.dimensions * sizeof(int64_t));
    }
    if (!first) return false;
    put(key, first->device);
    device_ = first;
    return here() && apart();
  }

  // Executes a plan. The results, one for each that is one, or nothing if a launch has failed.
  bool execute(const Plan &plan, std::vector<Tensor> &results) const {
    void *stream = nullptr, *counter = nullptr;
    if (current_stream && current_stream(device_->device, &stream)) return false;
    for (const Step &one : plan.steps) {
      if (one.launch.counted() && !counter && !(counter = counter_of(device_->device, stream))) {
        return false;
      }
    }
    std::vector<Tensor> made;
    bool good = true;
    for (const Allocation &one : plan.allocations) {
      Tensor tensor = nullptr;
      good = good && !aoti_torch_empty_strided(one.sizes.size(), one.sizes.data(),
                                               one.strides.data(), one.dtype, device_->device_type,
                                               device_->device, &tensor);
      made.push_back(tensor);
    }
    for (const Step &one : plan.steps) {
      good = good && (one.kind == Kind::kLaunch ? start(one.launch, made, stream, counter)
                      : one.kind == Kind::kCopy ? copied(one.copy, made)
                                                : zeroed(one.copy.to, made));
    }
    for (size_t n = 0; n < made.size(); n++) {
      int64_t result = plan.allocations[n].result;
      if (good && result >= 0) {
        results[result] = made[n];
      } else if (made[n]) {
        aoti_torch_delete_tensor_object(made[n]);
      }
    }
    return good;
  }

 private:
  static void put(std::string &key, int64_t value) {
    key.append(reinterpret_cast<char *>(&value), sizeof value);
  }

  static void take(char type, Value value, Argument &one) {
    if (type == 'F' || type == 'U') {
      std::memcpy(&one.number, &value, sizeof one.number);
    } else if (type == 'B') {
      one.number = static_cast<bool>(value & 0xff);
    } else if (type == 'I' || type == 'N') {
      one.number = static_cast<double>(static_cast<int64_t>(value));
    } else {
      if (type == 'O') {
        Value *inner = reinterpret_cast<Value *>(value);
        if (!inner) return;
        value = *inner;
        delete inner;
      }
      one.tensor = reinterpret_cast<Tensor>(value);
      void *data = nullptr;
      aoti_torch_get_data_ptr(one.tensor, &data);
      one.data = static_cast<char *>(data);
      aoti_torch_get_dim(one.tensor, &one.dimensions);
      aoti_torch_get_sizes(one.tensor, &one.sizes);
      aoti_torch_get_strides(one.tensor, &one.strides);
      aoti_torch_get_dtype(one.tensor, &one.dtype);
      aoti_torch_get_device_type(one.tensor, &one.device_type);
      aoti_torch_get_device_index(one.tensor, &one.device);
    }
  }

  // The first argument that begins at the same address: a plan takes both from there.
  int64_t same_start(size_t n) const {
    for (size_t other = 0; other < n; other++) {
      if (arguments_[other].tensor && arguments_[other].data == arguments_[n].data) return other;
    }
    return n;
  }

  // Whether this thread launches on the device of the tensors.
  bool here() const {
    if (!current_device || device_->device_type != aoti_torch_device_type_cuda()) return true;
    int32_t index = -1;
    return !current_device(&index) && index == device_->device;
  }

  // Whether what is overwritten overlaps nothing else, or is the same from its first element on.
  bool apart() const {
    for (size_t n = 0; n < count_; n++) {
      if (op_.types[n] != 'W') continue;
      const Argument &out = arguments_[n];
      for (const Argument &one : arguments_) {
        if (!one.tensor || one.data == out.data) continue;
        if (one.data < out.data + span(out) && out.data < one.data + span(one)) return false;
      }
    }
    return true;
  }

  // Bytes from the first to behind the last element.
  static int64_t span(const Argument &one) {
    int64_t last = 0;
    for (int64_t axis = 0; axis < one.dimensions; axis++) {
      if (!one.sizes[axis]) return 0;
      last += (one.sizes[axis] - 1) * one.strides[axis];
    }
    return (last + 1) * static_cast<int64_t>(aoti_torch_dtype_element_size(one.dtype));
  }

  void *begin(int64_t source, int64_t bytes, const std::vector<Tensor> &made) const {
    void *data = nullptr;
    if (source < static_cast<int64_t>(count_)) {
      data = arguments_[source].data;
    } else {
      aoti_torch_get_data_ptr(made[source - count_], &data);
    }
    return static_cast<char *>(data) + bytes;
  }

  // A tensor that does not own its memory; null if there is none.
  Tensor seen(const View &one, const std::vector<Tensor> &made) const {
    Tensor tensor = nullptr;
    aoti_torch_create_tensor_from_blob(begin(one.source, one.bytes, made), one.sizes.size(),
                                       one.sizes.data(), one.strides.data(), 0, one.dtype,
                                       device_->device_type, device_->device, &tensor);
    return tensor;
  }

  bool copied(const Copy &copy, const std::vector<Tensor> &made) const {
    Tensor to = seen(copy.to, made), from = seen(copy.from, made);
    bool good = to && from && !aoti_torch_copy_(to, from, 1);
    if (to) aoti_torch_delete_tensor_object(to);
    if (from) aoti_torch_delete_tensor_object(from);
    return good;
  }

  bool zeroed(const View &view, const std::vector<Tensor> &made) const {
    Tensor to = seen(view, made);
    bool good = to && !aoti_torch_zero_(to);
    if (to) aoti_torch_delete_tensor_object(to);
    return good;
  }

  bool start(const Launch &launch, const std::vector<Tensor> &made, void *stream,
             void *counter) const {
    int64_t words[launch.frame.size()];
    char *frame = reinterpret_cast<char *>(words);
    std::memcpy(frame, launch.frame.data(), sizeof words);
    for (const Address &one : launch.addresses) {
      void *data = one.source == kCounter ? static_cast<char *>(counter) + one.bytes
                                          : begin(one.source, one.bytes, made);
      std::memcpy(frame + one.offset, &data, sizeof data);
    }
    for (const Scalar &one : launch.scalars) {
      double number = arguments_[one.argument].number;
      if (one.whole) {
        int32_t value = static_cast<int32_t>(number);
        std::memcpy(frame + one.offset, &value, sizeof value);
        continue;
      }
      float value = static_cast<float>(number * one.factor);
      std::memcpy(frame + one.offset, &value, sizeof value);
    }
    std::memcpy(frame + launch.stream, &stream, sizeof stream);
    void *places[kMostPlaces];
    size_t count = 0;
    for (int64_t place : launch.places) places[count++] = frame + place;
    int32_t result = 0;
    places[count++] = &result;
    return !launch.run(launch.function, places, count) && !result;
  }

  const Operator &op_;
  size_t count_;
  std::vector<Argument> arguments_;
  mutable const Argument *device_ = nullptr;
};

void call(Operator &op, Value *stack) {
  std::vector<Tensor> results(op.results, nullptr);
  bool done = false;
  {
    Call arguments(op, stack);
    std::string key;
    bool known = arguments.signature(key);
    if (known) {
      std::shared_ptr<const Plan> plan;
      {
        std::lock_guard<std::mutex> guard(op.lock);
        auto found = op.plans.find(key);
        if (found != op.plans.end()) plan = found->second;
      }
      done = plan && arguments.execute(*plan, results);
    }
    if (!done) missed = known ? key : "";
  }
  if (!op.results) stack[0] = done;
  for (int64_t n = 0; n < op.results; n++) {
    stack[n] = done ? reinterpret_cast<Value>(new Value(reinterpret_cast<Value>(results[n]))) : 0;
  }
}

template <int N>
void boxed(Value *stack, uint64_t, uint64_t) {
  call(operators[N], stack);
}

using Boxed = void (*)(Value *, uint64_t, uint64_t);

template <int... N>
Boxed boxed_of(int slot, std::integer_sequence<int, N...>) {
  static constexpr Boxed all[] = {boxed<N>...};
  return all[slot];
}

// Reads a plan from the words that schedgen.kernels.plans.encoded writes.
class Reader {
 public:
  explicit Reader(const int64_t *words) : next_(words) {}

  int64_t word() { return *next_++; }

  std::vector<int64_t> words(int64_t count) {
    std::vector<int64_t> found(next_, next_ + count);
    next_ += count;
    return found;
  }

  Plan plan() {
    Plan made;
    for (int64_t left = word(); left > 0; left--) made.allocations.push_back(allocation());
    for (int64_t left = word(); left > 0; left--) {
      Step one{};
      one.kind = static_cast<Kind>(word());
      if (one.kind == Kind::kLaunch) {
        one.launch = launch();
      } else {
        one.copy.to = view();
        if (one.kind == Kind::kCopy) one.copy.from = view();
      }
      made.steps.push_back(std::move(one));
    }
    return made;
  }

 private:
  Allocation allocation() {
    Allocation one;
    one.result = word();
    one.dtype = static_cast<int32_t>(word());
    int64_t rank = word();
    one.sizes = words(rank);
    one.strides = words(rank);
    return one;
  }

  View view() {
    View one;
    one.source = word();
    one.bytes = word();
    one.dtype = static_cast<int32_t>(word());
    int64_t rank = word();
    one.sizes = words(rank);
    one.strides = words(rank);
    return one;
  }

  Launch launch() {
    Launch one;
    one.run = reinterpret_cast<Status (*)(void *, void **, size_t)>(word());
    one.function = reinterpret_cast<void *>(word());
    one.stream = word();
    one.places = words(word());
    for (int64_t left = word(); left > 0; left--) {
      int64_t offset = word(), source = word();
      one.addresses.push_back({offset, source, word()});
    }
    for (int64_t left = word(); left > 0; left--) {
      int64_t offset = word(), argument = word(), bits = word();
      double factor;
      std::memcpy(&factor, &bits, sizeof factor);
      one.scalars.push_back({offset, argument, factor, word() != 0});
    }
    one.frame = words(word());
    return one;
  }

  const int64_t *next_;
};

}  // namespace

extern "C" {

// Makes slot the implementation of the operator name for a dispatch key; 0 for success.
int schedgen_operator(int slot, const char *space, const char *name, const char *key,
                      const char *types, int64_t results) {
  if (slot < 0 || slot >= kOperators) return -1;
  if (void *cuda = dlopen("libtorch_cuda.so", RTLD_NOLOAD | RTLD_LAZY)) {
    current_stream = reinterpret_cast<Status (*)(int32_t, void **)>(
        dlsym(cuda, "aoti_torch_get_current_cuda_stream"));
    stream_is_capturing =
        reinterpret_cast<int (*)(void *, int *)>(dlsym(cuda, "cudaStreamIsCapturing"));
    current_device = reinterpret_cast<Status (*)(int32_t *)>(
        dlsym(RTLD_DEFAULT, "aoti_torch_get_current_device_index"));
  }
  Operator &op = operators[slot];
  op.types = types;
  op.results = results;
  void *library = nullptr;  // it stays: nothing is unregistered
  Status status = aoti_torch_library_init_impl(space, key, __FILE__, __LINE__, &library);
  if (status) return status;
  return aoti_torch_library_impl(
      library, name, boxed_of(slot, std::make_integer_sequence<int, kOperators>()));
}

// The signature for which this thread has last found no plan, and its length; 0 if it can have none.
int64_t schedgen_missed(const char **key) {
  *key = missed.data();
  return static_cast<int64_t>(missed.size());
}

// Keeps a plan for a signature.
void schedgen_keep(int slot, const char *key, int64_t length, const int64_t *words) {
  auto plan = std::make_shared<const Plan>(Reader(words).plan());
  Operator &op = operators[slot];
  std::lock_guard<std::mutex> guard(op.lock);
  if (op.plans.size() >= kMostPlans) op.plans.clear();
  op.plans[std::string(key, length)] = std::move(plan);
}

// Drops all plans of an operator.
void schedgen_forget(int slot) {
  std::lock_guard<std::mutex> guard(operators[slot].lock);
  operators[slot].plans.clear();
}

// Where the counter of a stream is.
void schedgen_counter(int64_t device, void *stream, void *counter) {
  std::lock_guard<std::mutex> guard(counters_lock);
  counters[{device, stream}] = counter;
}

// How many plans an operator has.
int64_t schedgen_plans(int slot) {
  std::lock_guard<std::mutex> guard(operators[slot].lock);
  return static_cast<int64_t>(operators[slot].plans.size());
}
}
