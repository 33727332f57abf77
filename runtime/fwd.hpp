#pragma once

namespace weir::runtime {

class ActorBase;
class ActorSystem;
class Clock;
class Link;
class LinkHandler;
class ProcessSpawner;
class Reader;
class Router;
class TaskGroup;
class Transport;
class Writer;
template <class T>
class ActorRef;

}  // namespace weir::runtime
