// Faltung for C++17: devices and plans that release themselves, spans instead of pointers, exceptions instead of
// statuses. A thin layer over faltung.h, which has the contracts; everything here is inline. Callbacks that are given to
// falt_device_progress must not throw: catch inside them and return false.
#ifndef FALTUNG_HPP
#define FALTUNG_HPP

#include <faltung/faltung.h>

#include <cstddef>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace faltung {

// What a call failed with: what() is falt_message(), status() the kind. Since 0.1.
class error : public std::runtime_error {
 public:
  error(falt_status status, const char *message) : std::runtime_error(message), status_(status) {}
  falt_status status() const noexcept { return status_; }

 private:
  falt_status status_;
};

// Throws unless the status is FALT_OK. Call it at once: the message is that of the thread's last failure. Since 0.1.
inline void check(falt_status status) {
  if (status != FALT_OK) throw error(status, falt_message());
}

// Elements one after the other, which belong to somebody else. From std::span, std::vector, std::array and whatever
// else has data() and size(), or from an array. Since 0.1.
template <typename T>
class span {
 public:
  constexpr span() noexcept = default;
  constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
  template <std::size_t N>
  constexpr span(T (&array)[N]) noexcept : data_(array), size_(N) {}
  template <typename C, typename = std::enable_if_t<std::is_convertible_v<decltype(std::declval<C &>().data()), T *>>>
  constexpr span(C &&container) noexcept : data_(container.data()), size_(container.size()) {}

  constexpr T *data() const noexcept { return data_; }
  constexpr std::size_t size() const noexcept { return size_; }
  constexpr std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }

 private:
  T *data_ = nullptr;
  std::size_t size_ = 0;
};

// Structs with their defaults in place. Since 0.1.
inline falt_problem default_problem() {
  falt_problem problem;
  falt_problem_default(&problem);
  return problem;
}
inline falt_budget default_budget() {
  falt_budget budget;
  falt_budget_default(&budget);
  return budget;
}
inline falt_options default_options() {
  falt_options options;
  falt_options_default(&options);
  return options;
}
inline falt_operands no_operands() {
  falt_operands operands;
  falt_operands_default(&operands);
  return operands;
}

// A problem line (docs/guide/problem-line.md), without a budget's words. Throws FALT_INVALID_TEXT. Since 0.1.
inline falt_problem parse(const std::string &line) {
  falt_problem problem;
  check(falt_problem_parse(&problem, nullptr, line.c_str()));
  return problem;
}

// A place to run. Moved, not copied; outlives its plans. Since 0.1.
class device {
 public:
  // The CPU: every core, unless the environment says otherwise.
  static device cpu() { return make(falt_device_cpu, static_cast<const falt_cpu_options *>(nullptr)); }
  static device cpu(const falt_cpu_options &options) { return make(falt_device_cpu, &options); }
  static device cuda() { return make(falt_device_cuda, static_cast<const falt_cuda_options *>(nullptr)); }
  static device cuda(const falt_cuda_options &options) { return make(falt_device_cuda, &options); }

  falt_device *get() const noexcept { return handle_.get(); }
  std::string name() const { return falt_device_name(get()); }
  int threads() const noexcept { return falt_device_threads(get()); }
  void synchronize() const { check(falt_device_synchronize(get())); }

 private:
  struct destroy {
    void operator()(falt_device *handle) const noexcept { falt_device_destroy(&handle); }
  };
  explicit device(falt_device *handle) noexcept : handle_(handle) {}
  template <typename Options>
  static device make(falt_status (*create)(falt_device **, const Options *), const Options *options) {
    falt_device *handle = nullptr;
    check(create(&handle, options));
    return device(handle);
  }
  std::unique_ptr<falt_device, destroy> handle_;
};

// Memory of a device in which operands or a workspace may lie, aligned to 64 bytes. Lives no longer than the device.
// Since 0.1.
class memory {
 public:
  memory(const device &owner, std::size_t bytes) : device_(owner.get()), bytes_(bytes) {
    check(falt_device_alloc(device_, &data_, bytes));
  }
  memory(memory &&other) noexcept
      : device_(other.device_), data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  memory &operator=(memory &&other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~memory() {
    if (data_) falt_device_free(device_, &data_);
  }

  void *data() const noexcept { return data_; }
  std::size_t size_bytes() const noexcept { return bytes_; }

 private:
  falt_device *device_;
  void *data_ = nullptr;
  std::size_t bytes_;
};

// How to compute a problem. Moved, not copied. Several threads may execute it if each brings its own workspace.
// Since 0.1.
class plan {
 public:
  plan(const device &on, const falt_problem &problem, const falt_budget &budget = default_budget(),
       const void *filter_values = nullptr) {
    falt_plan *handle = nullptr;
    check(falt_plan_create(&handle, on.get(), &problem, &budget, filter_values));
    handle_.reset(handle);
  }
  // A problem line with its budget's words.
  plan(const device &on, const std::string &line, const void *filter_values = nullptr) {
    falt_plan *handle = nullptr;
    check(falt_plan_create_line(&handle, on.get(), line.c_str(), filter_values));
    handle_.reset(handle);
  }

  const falt_plan *get() const noexcept { return handle_.get(); }
  std::size_t workspace() const noexcept { return falt_plan_workspace(get()); }
  std::string solver() const { return falt_plan_solver(get()); }
  std::string print() const {
    std::string text(falt_plan_print(get(), nullptr, 0), '\0');
    falt_plan_print(get(), &text[0], text.size() + 1);
    return text;
  }

  // On the device's memory, or on the host's. Throws what falt_execute returns.
  void execute(const falt_operands &operands) const { check(falt_execute(get(), &operands)); }
  void execute_host(const falt_operands &operands) const { check(falt_execute_host(get(), &operands)); }
  // The forward operands in host memory, each as long as the plan's tensor at least; the workspace is made for the call.
  template <typename T, typename F, typename Y>
  void execute_host(span<T> input, span<F> filter, span<Y> output) const {
    falt_operands operands = no_operands();
    operands.input = address(input, "input");
    operands.filter = address(filter, "filter");
    operands.output = address(output, "output");
    execute_host(operands);
  }

 private:
  struct destroy {
    void operator()(falt_plan *handle) const noexcept { falt_plan_destroy(&handle); }
  };
  template <typename T>
  void *address(span<T> elements, const char *name) const {
    if (elements.size_bytes() < falt_plan_bytes(get(), name))
      throw error(FALT_INVALID_SIZE, (std::string(name) + ": the span is shorter than the plan's tensor").c_str());
    return const_cast<std::remove_const_t<T> *>(elements.data()); // the operation decides which operand is the output
  }
  std::unique_ptr<falt_plan, destroy> handle_;
};

// One call (falt_correlate, falt_convolve). Throws what they return. Since 0.1.
inline void correlate(const falt_const_array &src, const falt_const_array &taps, const falt_array &dst,
                      const falt_options &options = default_options()) {
  check(falt_correlate(&src, &taps, &dst, &options));
}
inline void convolve(const falt_const_array &src, const falt_const_array &taps, const falt_array &dst,
                     const falt_options &options = default_options()) {
  check(falt_convolve(&src, &taps, &dst, &options));
}

}  // namespace faltung

#endif
