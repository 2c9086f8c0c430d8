"""Tests the transport against a scripted, misbehaving service on loopback. Pauses take no time."""

import asyncio
import builtins
import collections
import contextlib
import email.utils
import json
import os
import pickle
import socket
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import parley
from parley._events import Parser, Told

for setting in [name for name in os.environ if name.startswith("PARLEY_")]:
    del os.environ[setting]

AGENT = {"id": "ag_1", "name": "one"}


def problem(code, status, retryable):
    return {"code": code, "detail": "so it is", "requestId": "REQ1", "retryable": retryable, "errors": [], "status": status}


def frame(number, event, **data):
    return f"id: {number}\nevent: {event}\ndata: {json.dumps({'runId': 'run_1', **data})}\n\n".encode()


def ended(number, message):
    return frame(number, "run.completed", run={"id": "run_1", "status": "completed", "message": message, "error": None})


Request = collections.namedtuple("Request", "command path headers body")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self.server.connections.append(self.client_address)

    def log_message(self, *_):
        pass

    def handle_one_request(self):
        with contextlib.suppress(ConnectionError):
            super().handle_one_request()

    def serve(self):
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.server.lock:
            self.server.requests.append(Request(self.command, self.path, self.headers, self.body))
            number = len(self.server.requests) - 1
        self.server.script[min(number, len(self.server.script) - 1)](self)

    do_GET = do_POST = do_PUT = do_DELETE = serve


class Service(ThreadingHTTPServer):
    """Responds to the n-th request with the n-th step of a script, and to later requests with the last step."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *script):
        super().__init__(("127.0.0.1", 0), Handler)
        self.script, self.requests, self.connections, self.lock = script, [], [], threading.Lock()
        self.left = threading.Semaphore(0)  # released once for each client that has disconnected from a stream
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def handle_error(self, *_):
        pass

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/behind"


def answer(status, body, **headers):
    def step(handler):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(raw)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(raw)

    return step


def refuse(status, code, retryable, **headers):
    return answer(status, problem(code, status, retryable), **headers)


def drop(handler):
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def events(*frames, stay=False):
    """Sends these events, and closes the connection without a final event. With stay it first waits until the client has left."""

    def step(handler):
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for piece in frames:
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        handler.close_connection = True
        if stay:
            with contextlib.suppress(OSError):
                handler.connection.recv(1)
            handler.server.left.release()

    return step


class Case(unittest.TestCase):
    def service(self, *script):
        service = Service(*script)
        self.addCleanup(service.server_close)
        self.addCleanup(service.shutdown)
        return service

    def client(self, service, kind=parley.Parley, **options):
        client = kind(base_url=service.url, **{"api_key": None if options.get("demo") else "ak_x", **options})
        self.pauses = []
        sync = getattr(client, "_client", client)
        sync._transport.pause = self.pauses.append
        if sync is client:
            self.addCleanup(client.close)
        return client


class Retries(Case):
    def test_retry_after_is_obeyed(self):
        date = email.utils.formatdate(time.time() + 30, usegmt=True)
        service = self.service(refuse(429, "rate_limited", True, Retry_After="7"), refuse(503, "overloaded", True, Retry_After=date), answer(200, AGENT))
        self.assertEqual(self.client(service).agents.get("ag_1"), AGENT)
        self.assertEqual(self.pauses[0], 7)
        self.assertTrue(28 <= self.pauses[1] <= 30, self.pauses)

    def test_a_long_retry_after_is_not_obeyed(self):
        service = self.service(refuse(429, "budget_exceeded", True, Retry_After="3600"))
        with self.assertRaises(parley.RateLimitError) as caught:
            self.client(service).agents.get("ag_1")
        self.assertEqual((caught.exception.retry_after, caught.exception.request_id, len(service.requests)), (3600, "REQ1", 1))

    def test_pauses_grow_and_end(self):
        service = self.service(refuse(503, "unavailable", True))
        with self.assertRaises(parley.ServerError):
            self.client(service, max_retries=6).agents.get("ag_1")
        self.assertEqual(len(self.pauses), 6)
        for pause, most in zip(self.pauses, (0.5, 1, 2, 4, 8, 8)):
            self.assertTrue(0.75 * most <= pause <= most, self.pauses)
        self.assertNotEqual(self.pauses, [0.5, 1, 2, 4, 8, 8])  # the pauses must be random, so that clients do not retry together

    def test_which_requests_are_retried(self):
        for status, code, retryable, attempts in [
            (408, "timeout", True, 3), (409, "busy", True, 3), (409, "version_conflict", False, 1), (429, "rate_limited", True, 3),
            (500, "internal", False, 1), (503, "unavailable", True, 3), (400, "invalid_request", False, 1), (404, "not_found", False, 1),
            (422, "idempotency_key_reused", False, 1),
        ]:
            with self.subTest(code):
                service = self.service(refuse(status, code, retryable))
                with self.assertRaises(parley.APIError) as caught:
                    self.client(service).chat(agent_id="ag_1", message="x")
                self.assertEqual((caught.exception.status, caught.exception.code, caught.exception.retryable), (status, code, retryable))
                self.assertEqual(len(service.requests), attempts)
                self.assertEqual(len({request.headers["Idempotency-Key"] for request in service.requests}), 1)

    def test_responses_of_a_proxy(self):
        service = self.service(answer(502, b"<h1>Bad gateway</h1>", X_Request_Id="proxy-1"), answer(500, b"<h1>Oh</h1>"))
        with self.assertRaises(parley.ServerError) as caught:
            self.client(service).agents.get("ag_1")
        self.assertEqual((caught.exception.status, caught.exception.code, caught.exception.errors, len(service.requests)), (500, None, [], 2))
        with self.assertRaisesRegex(parley.ParleyError, "not JSON"):
            self.client(self.service(answer(200, b"<h1>Welcome</h1>"))).agents.get("ag_1")
        with self.assertRaises(parley.APIError):
            self.client(self.service(answer(302, b"", Location="/login"))).agents.get("ag_1")

    def test_a_lost_answer(self):
        service = self.service(drop, answer(200, {"id": "run_1", "status": "completed"}))
        self.assertEqual(self.client(service).automations.run(target="ag_1", message="x")["id"], "run_1")
        self.assertEqual(len({request.headers["Idempotency-Key"] for request in service.requests}), 1)
        self.assertEqual(len(service.requests), 2)

    def test_unsafe_requests_are_not_retried(self):
        service = self.service(drop, answer(201, AGENT))
        client = self.client(service)
        with self.assertRaises(parley.APIConnectionError):
            client.agents.create(name="one", system_prompt="x")
        with self.assertRaises(parley.APIConnectionError):
            self.client(self.service(drop)).agents.update("ag_1", name="two", version=1)
        doubtful = self.service(answer(502, b"<h1>Bad gateway</h1>"), answer(201, AGENT))
        with self.assertRaises(parley.ServerError):
            self.client(doubtful).agents.create(name="one", system_prompt="x")
        self.assertEqual(len(doubtful.requests), 1)
        accepted = self.service(refuse(503, "overloaded", True), answer(201, AGENT))
        self.assertEqual(self.client(accepted).agents.create(name="one", system_prompt="x"), AGENT)
        self.assertEqual((len(service.requests), len(accepted.requests)), (1, 2))

    def test_deleting_with_a_lost_answer(self):
        service = self.service(drop, refuse(404, "not_found", False))
        self.assertEqual(self.client(service).agents.delete("ag_1"), {"id": "ag_1", "deleted": True})
        with self.assertRaises(parley.NotFoundError):
            self.client(self.service(refuse(404, "not_found", False))).agents.delete("ag_1")

    def test_an_unreachable_service(self):
        service = self.service(drop)
        service.shutdown()
        service.server_close()
        client = self.client(service)
        with self.assertRaises(builtins.ConnectionError) as caught:
            client.agents.create(name="one", system_prompt="x")
        self.assertIsInstance(caught.exception, parley.APIConnectionError)
        self.assertIn(service.url, str(caught.exception))
        self.assertEqual(len(self.pauses), 2)  # the client retries, because the request was never sent

    def test_timeouts(self):
        over = threading.Event()
        self.addCleanup(over.set)
        for begin in (b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{"):
            service = self.service(lambda handler: (handler.wfile.write(begin), over.wait(30)))
            with self.assertRaises(builtins.TimeoutError) as caught:
                self.client(service, timeout=0.1, max_retries=1).agents.get("ag_1")
            self.assertIsInstance(caught.exception, parley.APITimeoutError)
            self.assertTrue(wait_until(lambda: len(service.requests) == 2))  # the service may record the request late

    def test_waiting_for_a_run_ends(self):
        service = self.service(answer(202, {"id": "run_1", "status": "queued"}), answer(200, {"id": "run_1", "status": "running"}))
        client = self.client(service)
        now = [0.0]
        client._transport.clock = lambda: now[0]
        client._transport.pause = lambda seconds: now.__setitem__(0, now[0] + seconds)
        with self.assertRaisesRegex(parley.WaitEndedError, "run_1") as caught:
            client.chat(agent_id="ag_1", message="x", timeout=3)
        self.assertEqual((caught.exception.run_id, caught.exception.document_id), ("run_1", None))
        self.assertIsInstance(caught.exception, builtins.TimeoutError)
        self.assertNotIsInstance(caught.exception, builtins.ConnectionError)  # because the service is reachable
        self.assertEqual(now[0], 3)
        self.assertEqual([service.requests[0].headers["Prefer"], service.requests[1].path], ["wait=3", "/behind/api/runs?id=run_1&wait=3"])

    def test_waiting_for_a_document_ends(self):
        client = self.client(self.service(answer(200, {"id": "doc_1", "status": "processing"})))
        with self.assertRaisesRegex(parley.WaitEndedError, "processing") as caught:
            client.knowledge.wait("doc_1", timeout=0)
        self.assertEqual((caught.exception.run_id, caught.exception.document_id), (None, "doc_1"))

    def test_the_session_of_a_chat_without_one(self):
        service = self.service(answer(200, {"id": "run_1", "status": "completed"}))
        client = self.client(service)
        for options in ({"idempotency_key": "k2"}, {"idempotency_key": "k2"}, {"idempotency_key": "k" * 124}, {}, {}, {"session_id": ""}):
            client.chat(agent_id="ag_1", message="x", **options)
        client.chat(agent_id="ag_1", message="x", idempotency_key="k" * 255, session_id="s")
        keys = [request.headers["Idempotency-Key"] for request in service.requests]
        sessions = [json.loads(request.body)["sessionId"] for request in service.requests]
        self.assertEqual(sessions, [f"key-{key}" for key in keys[:5]] + ["", "s"])
        self.assertEqual((keys[0], service.requests[0].body), ("k2", service.requests[1].body))
        self.assertEqual(len(set(keys)), 6)

    def test_where_the_text_of_an_automation_is(self):
        service = self.service(answer(200, {"id": "run_1", "status": "completed"}))
        client = self.client(service)
        whole = {"message": "x", "n": 1}
        for options in ({"message": "x", "data": {"n": 1}}, {"data": whole}, {"message": "x", "data": whole}):
            client.automations.run(target="ag_1", **options)
            self.assertEqual(json.loads(service.requests[-1].body)["input"], whole)

    def test_errors_survive_pickling(self):
        with self.assertRaises(parley.RateLimitError) as caught:
            self.client(self.service(refuse(429, "rate_limited", True, Retry_After="90"))).agents.get("ag_1")
        again = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((type(again), str(again), again.retry_after), (parley.RateLimitError, str(caught.exception), 90))
        ended = pickle.loads(pickle.dumps(parley.WaitEndedError("run_1 goes on", run_id="run_1")))
        self.assertEqual((str(ended), ended.run_id, ended.document_id), ("run_1 goes on", "run_1", None))
        failed = parley.RunFailedError({"id": "run_1", "status": "failed", "error": {"code": "turn_limit", "message": "too many"}})
        self.assertEqual(str(pickle.loads(pickle.dumps(failed))), "run run_1 failed: turn_limit: too many")

    def test_invalid_arguments(self):
        service = self.service(answer(200, AGENT))
        client = self.client(service)
        for call in (
            lambda: client.agents.get(""), lambda: client.agents.delete(None), lambda: client.chat(message="x"),
            lambda: client.chat(message="x", agent_id="a", template_id="b"), lambda: client.knowledge.upload(b"x"),
            lambda: client.knowledge.upload(b"x", content="x", name="x"), lambda: parley.Parley(api_key="ak_x", base_url="nowhere"),
            lambda: parley.Parley(api_key="ak_x", base_url="http://u:p@h"), lambda: parley.Parley(api_key="ak_x", timeout=0),
            lambda: client.chat(agent_id="a", message="x", idempotency_key="k" * 125),
            lambda: parley.Parley(api_key="ak_x", base_url="localhost:8611"),
            lambda: client.automations.run(target="a", message="x", data={"message": "y"}), lambda: client.runs.stream(None),
        ):
            with self.assertRaises(ValueError):
                call()
        for options in ({"api_key": "ak_x\r\nx-evil: 1"}, {"api_key": "ak_x", "demo": True}, {}):
            with self.assertRaises(parley.ParleyError):
                parley.Parley(**options)
        client = self.client(service)
        for key in ("a\r\n evil: 2", "a\nx", "a\0"):
            with self.assertRaisesRegex(parley.ParleyError, "line break"):
                client.chat(agent_id="a", session_id="s", message="x", idempotency_key=key)
        os.environ["PARLEY_API_KEY"] = "ak_environment"
        self.addCleanup(os.environ.pop, "PARLEY_API_KEY")
        for key in ("", " "):
            with self.assertRaisesRegex(parley.ParleyError, "blank"):
                parley.Parley(api_key=key)
        self.assertEqual(service.requests, [])

    def test_credentials_of_a_request(self):
        service = self.service(answer(200, AGENT))
        for options, name, value in (
            ({"api_key": " ak_1 ", "organization_id": "org_1"}, "x-api-key", "ak_1"), ({"api_key": "ps_1"}, "Authorization", "Bearer ps_1"),
            ({"demo": True}, "x-tenant-id", "tenant_demo"),
        ):
            self.client(service, **options).agents.get("ag_1")
            self.assertEqual(service.requests[-1].headers[name], value)
        self.assertEqual(service.requests[0].headers["x-organization-id"], "org_1")
        self.assertTrue(service.requests[0].headers["User-Agent"].startswith(f"parley-sdk-python/{parley.__version__}"))


class Connections(Case):
    def test_a_connection_is_reused(self):
        service = self.service(answer(200, AGENT), refuse(404, "not_found", False), answer(200, AGENT))
        client = self.client(service)
        client.agents.get("ag_1")
        with self.assertRaises(parley.NotFoundError):
            client.agents.get("ag_2")
        client.agents.get("ag_1")
        self.assertEqual(len(service.connections), 1)

    def test_a_connection_closed_by_the_service(self):
        def once(handler):
            answer(200, AGENT)(handler)
            handler.close_connection = True

        service = self.service(once)
        client = self.client(service, max_retries=0)
        for _ in range(20):
            client.agents.get("ag_1")
        self.assertEqual((len(service.requests), self.pauses), (20, []))

    def test_a_connection_with_unexpected_data(self):
        def late(handler):  # acts like a proxy that closes an idle connection
            answer(200, AGENT)(handler)
            read.wait(10)
            handler.wfile.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")

        read = threading.Event()
        service = self.service(late)
        client = self.client(service)
        client.agents.get("ag_1")
        read.set()
        self.assertTrue(wait_until(lambda: not client._transport._idle[0].usable()))
        self.assertEqual(client.agents.get("ag_1"), AGENT)
        self.assertEqual(len(service.connections), 2)

    def test_a_connection_that_breaks_when_it_is_reused(self):
        service = self.service(answer(200, AGENT), drop, answer(200, AGENT))
        client = self.client(service, max_retries=0)
        client.agents.get("ag_1")
        self.assertEqual(client.agents.get("ag_1"), AGENT)
        self.assertEqual((len(service.connections), self.pauses), (2, []))

    def test_threads_share_a_client(self):
        def echo(handler):
            answer(200, {"id": handler.path.partition("id=")[2]})(handler)

        service = self.service(echo)
        client = self.client(service)
        wrong = []

        def work(worker):
            for n in range(25):
                if client.agents.get(f"ag_{worker}_{n}")["id"] != f"ag_{worker}_{n}":
                    wrong.append((worker, n))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((wrong, len(service.requests)), ([], 300))
        self.assertLessEqual(len(service.connections), 12)

    def test_a_forked_child_opens_new_connections(self):
        service = self.service(answer(200, AGENT))
        client = self.client(service)
        client.agents.get("ag_1")
        child = os.fork()
        if child == 0:
            os._exit(0 if client.agents.get("ag_1") == AGENT else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        client.agents.get("ag_1")
        self.assertEqual(len(service.connections), 2)  # the child's connection, and the parent's, which is still open

    def test_a_closed_client(self):
        service = self.service(answer(200, AGENT))
        with self.client(service) as client:
            client.agents.get("ag_1")
        with self.assertRaisesRegex(parley.ParleyError, "closed"):
            client.agents.get("ag_1")


class Streams(Case):
    def test_every_division_of_the_bytes(self):
        text = "Grüße 👋\r\n\tende"
        whole = b": ping\n\n" + frame("1.1", "message.delta", text=text).replace(b"\n", b"\r\n") + b"retry: 5\n\n" + frame("1.2", "x", a=1)
        want = list(Parser().feed(whole))
        self.assertEqual([event["id"] for event in want], ["1.1", "1.2"])
        self.assertEqual(want[0]["data"]["text"], text)
        for at in range(len(whole)):
            parser = Parser()
            self.assertEqual([*parser.feed(whole[:at]), *parser.feed(whole[at:])], want, at)
        parser = Parser()
        self.assertEqual([event for n in range(len(whole)) for event in parser.feed(whole[n : n + 1])], want)
        self.assertEqual(list(Parser().feed(b"id:1.1\nevent:x\ndata:{\ndata: }\n\n")), [{"id": "1.1", "event": "x", "data": {}}])

    def test_replayed_text_is_not_repeated(self):
        def told(*texts):
            teller = Told()
            frames = [frame("1.1", "run.restarted") if text is None else frame("1.1", "message.delta", text=text) for text in texts]
            return [teller.text(event) for piece in [*frames, ended("1.9", "")] for event in Parser().feed(piece)]

        self.assertEqual("".join(told("ab", "c", None, "a", "bcd", "e")), "abcde")
        self.assertEqual("".join(told("ab", None, "a", None, "abc")), "abc")
        self.assertEqual("".join(told("ab", None, "ab")), "ab")
        for texts in (("ab", None, "ax"), ("ab", None, "a"), ("ab", None)):
            with self.assertRaises(parley.StreamRestartedError):
                told(*texts)

    def test_a_cut_stream_goes_on(self):
        first = frame("0.1", "run.created") + frame("1.1", "message.delta", text="a")
        service = self.service(events(first, b"id: 1.2\neve"), events(frame("1.2", "message.delta", text="b") + ended("1.3", "ab")))
        stream = self.client(service).chat.stream(agent_id="ag_1", message="x")
        self.assertEqual("".join(stream.text()), "ab")
        self.assertEqual((stream.final_run()["message"], stream.run_id, stream.last_event_id), ("ab", "run_1", "1.3"))
        self.assertEqual((service.requests[1].path, service.requests[1].headers["Last-Event-ID"]), ("/behind/api/runs?id=run_1&stream=1", "1.1"))
        self.assertEqual(self.pauses, [])

    def test_any_number_of_cuts_with_progress(self):
        service = self.service(*(events(frame(f"1.{n}", "message.delta", text=str(n))) for n in range(1, 8)), events(ended("1.8", "")))
        self.assertEqual("".join(self.client(service).runs.stream("run_1").text()), "1234567")
        self.assertEqual(self.pauses, [])

    def test_a_long_lived_connection_resets_the_retries(self):
        quiet = events(b": ping\n\n")
        service = self.service(events(frame("0.1", "run.created")), quiet, quiet, quiet, quiet, events(ended("1.1", "a")))
        client = self.client(service)
        seconds = iter(range(0, 1000, 20))
        client._transport.clock = lambda: float(next(seconds))
        self.assertEqual(client.runs.stream("run_1").final_run()["message"], "a")
        self.assertEqual(self.pauses, [])

    def test_before_the_first_event_the_message_is_sent_again(self):
        service = self.service(drop, refuse(503, "overloaded", True, Retry_After="3"), events(ended("1.1", "a")))
        self.assertEqual(self.client(service).chat.stream(agent_id="ag_1", message="x").final_run()["message"], "a")
        self.assertEqual(len({(request.path, request.body, request.headers["Idempotency-Key"]) for request in service.requests}), 1)
        self.assertEqual(self.pauses[1], 3)

    def test_demo_callers_resume_by_their_message(self):
        service = self.service(events(frame("0.1", "run.created")), events(ended("1.1", "a")))
        self.assertEqual(self.client(service, demo=True).chat.stream(template_id="tpl_1", message="x").final_run()["message"], "a")
        self.assertEqual(service.requests[0].headers["Idempotency-Key"], service.requests[1].headers["Idempotency-Key"])
        self.assertEqual((service.requests[1].command, service.requests[1].headers["Last-Event-ID"]), ("POST", "0.1"))
        waits = self.service(answer(202, {"id": "run_1", "status": "queued"}), answer(200, {"id": "run_1", "status": "completed"}))
        self.client(waits, demo=True).chat(template_id="tpl_1", message="x")
        self.assertEqual([request.command for request in waits.requests], ["POST", "POST"])
        self.assertEqual(waits.requests[0].headers["Idempotency-Key"], waits.requests[1].headers["Idempotency-Key"])

    def test_a_stream_without_progress_fails(self):
        service = self.service(events(frame("0.1", "run.created")), events(frame("0.1", "run.created")[:9]))
        with self.assertRaises(parley.APIConnectionError):
            list(self.client(service).runs.stream("run_1"))
        self.assertEqual((len(service.requests), len(self.pauses)), (3, 1))
        refused = self.service(events(frame("0.1", "run.created")), refuse(401, "unauthenticated", False))
        with self.assertRaises(parley.AuthenticationError):
            list(self.client(refused).runs.stream("run_1"))

    def test_repeated_events_are_skipped(self):
        service = self.service(events(frame("1.1", "a"), frame("1.2", "b")), events(frame("1.2", "b"), frame("1.10", "c"), ended("2.1", "")))
        self.assertEqual([event["id"] for event in self.client(service).runs.stream("run_1")], ["1.1", "1.2", "1.10", "2.1"])

    def test_a_run_whose_end_is_known(self):
        ended_before = answer(204, b"")
        service = self.service(ended_before, answer(200, {"id": "run_1", "status": "completed"}))
        stream = self.client(service).runs.stream("run_1", last_event_id="1.9")
        self.assertEqual((list(stream), stream.final_run()["id"]), ([], "run_1"))
        with self.assertRaisesRegex(parley.ParleyError, "not an event stream"):
            list(self.client(self.service(answer(200, AGENT))).runs.stream("run_1"))

    def leaves(self, service):
        self.assertTrue(service.left.acquire(timeout=10), "the connection is still open")

    def test_leaving_closes_the_connection(self):
        held = events(frame("1.1", "a"), frame("1.2", "b"), stay=True)
        service = self.service(held, held, held, held, events(frame("1.2", "b"), ended("1.3", "")))
        client = self.client(service)
        for _ in client.runs.stream("run_1"):
            break
        self.leaves(service)
        with client.runs.stream("run_1") as stream:
            self.assertEqual(next(iter(stream))["id"], "1.1")
        self.leaves(service)
        self.assertEqual(list(stream), [])  # the stream is closed permanently
        with self.assertRaises(ZeroDivisionError):
            for _ in client.runs.stream("run_1"):
                raise ZeroDivisionError
        self.leaves(service)
        stream = client.runs.stream("run_1")
        for event in stream:
            break
        self.leaves(service)
        self.assertEqual((event["id"], stream.last_event_id), ("1.1", "1.1"))
        self.assertEqual([event["id"] for event in stream], ["1.2", "1.3"])  # events read before the break are still available

    def test_closing_from_another_thread(self):
        service = self.service(events(frame("1.1", "a"), stay=True))
        stream = self.client(service).runs.stream("run_1")
        seen = []
        reader = threading.Thread(target=lambda: seen.extend(stream))
        reader.start()
        self.assertTrue(wait_until(lambda: seen), "no event")
        stream.close()
        reader.join(10)
        self.assertFalse(reader.is_alive())
        self.leaves(service)


def wait_until(done):
    over = time.monotonic() + 10
    while not done() and time.monotonic() < over:
        threading.Event().wait(0.005)
    return done()


class Async(Case):
    def test_leaving_closes_the_connection(self):
        held = events(frame("1.1", "a"), frame("1.2", "b"), stay=True)
        says = events(frame("1.1", "message.delta", text="a"), stay=True)
        service = self.service(held, says, held, held, events(frame("1.1", "a"), stay=True), events(ended("1.2", "")))

        async def left():
            self.assertTrue(await asyncio.to_thread(service.left.acquire, timeout=10), "the connection is still open")

        async def main():
            async with self.client(service, parley.AsyncParley) as client:
                async for _ in client.runs.stream("run_1"):
                    break
                await left()
                async for text in client.runs.stream("run_1").text():
                    self.assertEqual(text, "a")
                    break
                await left()
                async with client.runs.stream("run_1") as stream:
                    async for _ in stream:
                        break
                await left()
                with self.assertRaises(ZeroDivisionError):
                    async for _ in client.runs.stream("run_1"):
                        raise ZeroDivisionError
                await left()
                stream = client.runs.stream("run_1")
                reading, seen = asyncio.Event(), []

                async def read():
                    async for event in stream:
                        seen.append(event["id"])
                        reading.set()

                task = asyncio.create_task(read())
                await reading.wait()
                await asyncio.sleep(0)  # lets the task run until it waits for the next event
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                await left()
                seen += [event["id"] async for event in stream]
                self.assertEqual(seen, ["1.1", "1.2"])

        asyncio.run(main())

    def test_a_cancelled_call_closes_its_connection_and_is_not_retried(self):
        def hold(handler):
            with contextlib.suppress(OSError):
                handler.connection.recv(1)
            handler.server.left.release()

        service = self.service(hold)

        async def main():
            async with self.client(service, parley.AsyncParley) as client:
                with self.assertRaises(builtins.TimeoutError):
                    async with asyncio.timeout(2):  # fails the test if the client does not send the request
                        await client.agents.get("ag_1")
                self.assertTrue(await asyncio.to_thread(service.left.acquire, timeout=10), "the connection is still open")

        asyncio.run(main())
        self.assertEqual(len(service.requests), 1)

    def test_a_cancelled_pause_ends(self):
        service = self.service(refuse(503, "unavailable", True, Retry_After="50"))

        async def main():
            async with parley.AsyncParley(base_url=service.url, api_key="ak_x") as client:
                with self.assertRaises(builtins.TimeoutError):
                    async with asyncio.timeout(0.2):
                        await client.agents.get("ag_1")
                self.assertTrue(await asyncio.to_thread(wait_until, lambda: not client._workers._calls), "a worker thread is still asleep")

        asyncio.run(main())

    def test_closing_cancels_pending_calls(self):
        service = self.service(events(frame("1.1", "a"), stay=True))

        async def main():
            client = self.client(service, parley.AsyncParley)
            reading = asyncio.Event()

            async def read():
                async for _ in client.runs.stream("run_1"):
                    reading.set()

            task = asyncio.create_task(read())
            await reading.wait()
            self.assertTrue(await asyncio.to_thread(wait_until, lambda: client._workers._calls))
            await client.close()
            with self.assertRaises(parley.ParleyError):
                async with asyncio.timeout(10):
                    await task
            with self.assertRaisesRegex(parley.ParleyError, "closed"):
                await client.agents.get("ag_1")

        asyncio.run(main())

    def test_fifty_streams_at_once(self):
        together = threading.Barrier(50)

        def step(handler):
            together.wait(20)  # keeps each stream open until all streams are open
            number = handler.path.partition("id=run_")[2].partition("&")[0]
            events(*(frame(f"1.{n}", "message.delta", text=f"{number}.{n} ") for n in range(1, 40)), ended("1.40", number))(handler)

        service = self.service(step)

        async def main():
            async with self.client(service, parley.AsyncParley) as client:

                async def read(number):
                    stream = client.runs.stream(f"run_{number}")
                    text = "".join([piece async for piece in stream.text()])
                    self.assertEqual(text, "".join(f"{number}.{n} " for n in range(1, 40)))
                    self.assertEqual((await stream.final_run())["message"], str(number))

                await asyncio.gather(*(read(number) for number in range(50)))

        asyncio.run(main())
        self.assertEqual(len(service.requests), 50)


if __name__ == "__main__":
    unittest.main()
